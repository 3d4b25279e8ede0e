"""Runs what nvcc makes of the CUDA kernels, their PTX or SASS, on the CPU: see README.md."""

"""What descriptors and model files are written in: structs, and documents of JSON."""

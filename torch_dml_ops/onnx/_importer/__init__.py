"""Graphs of ONNX that only move data, as PyTorch modules."""

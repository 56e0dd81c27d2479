"""Dumps that the NPU runtime of PyTorch writes by itself."""

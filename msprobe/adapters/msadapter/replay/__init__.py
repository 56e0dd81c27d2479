"""Recorded calls of MSAdapter run again, with MindSpore's tensors."""

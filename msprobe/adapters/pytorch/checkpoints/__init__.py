"""Checkpoint files of PyTorch, read without running what they name."""

"""Readers of tensor files that other programs write: dumps of ACL and ATB, checkpoints of MindSpore."""

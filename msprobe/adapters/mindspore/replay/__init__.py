"""Recorded calls of MindSpore, run again in dynamic graphs."""

"""Observing cells inside graphs that MindSpore compiled."""

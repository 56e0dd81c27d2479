"""Kernel dumps that a framework's runtime writes by itself: how they are asked for, read and imported."""

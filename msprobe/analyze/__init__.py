"""Conclusions from compared or recorded data: where did it go wrong."""

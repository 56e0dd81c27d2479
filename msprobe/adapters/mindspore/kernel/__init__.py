"""Dumps that MindSpore's runtime writes by itself."""

"""Accuracy pre-check: every recorded call again, on the device under test and as the golden one."""

"""Findings without a golden run: what cannot be right in one run, from its dumps of several steps and ranks."""

"""Metrics, tolerances and verdicts: the one engine every tool judges with."""

"""Ranks of one parallel model merged into one model."""

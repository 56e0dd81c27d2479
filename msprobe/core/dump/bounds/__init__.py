"""Bounds of memory and disk: steps kept in memory until there is a reason to write them, a budget of the disk."""

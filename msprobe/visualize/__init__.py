"""Graphs of a dump or of a comparison: their database, and the viewer."""

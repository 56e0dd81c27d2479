"""Alignment: which entry and item of one dump stands for which of the other. One file per strategy."""

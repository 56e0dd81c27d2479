"""Two dumps as one table of paired leaves."""

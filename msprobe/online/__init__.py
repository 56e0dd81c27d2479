"""Each operator of a running program once more in a higher precision, judged at once."""

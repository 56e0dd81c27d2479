"""Trend databases in the browser: heat maps and lines over steps, ranks and layers, of one run or of two."""

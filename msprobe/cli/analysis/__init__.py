"""Commands that look into one run, or draw it."""

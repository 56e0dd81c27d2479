"""One run as calls and values: who made a value, and who uses it."""

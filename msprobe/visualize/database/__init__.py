"""The SQLite file that viewers read."""

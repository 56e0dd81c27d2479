"""Writing results: tables, JSON, terminal text."""

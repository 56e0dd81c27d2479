"""Seeds of MindSpore."""

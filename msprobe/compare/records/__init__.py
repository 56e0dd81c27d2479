"""The entries and leaves of one dump, and what else is recorded about an entry."""

"""What differs between two set-ups, one file per kind of fact."""

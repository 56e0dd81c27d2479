"""Relations that held in good steps, learned from their records, and held against other steps or runs."""

"""What a node shows, as JSON."""

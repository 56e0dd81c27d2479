"""What two runs began with: so far their checkpoints."""

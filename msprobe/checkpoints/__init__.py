"""Compare the weights of two checkpoints."""

"""Settings of reinforcement learning frameworks, read from their logs."""

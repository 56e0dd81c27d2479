"""Values that a reinforcement learning loop saves (``SingleSave``), compared value by value and token by token."""

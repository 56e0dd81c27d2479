"""What a command does, from options to outcome."""

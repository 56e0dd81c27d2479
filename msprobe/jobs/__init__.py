"""The work of the commands: from options to results."""

"""Where dumps are, and what two dumps have in common."""

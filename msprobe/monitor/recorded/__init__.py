"""What a monitor wrote, read again: its files, their rows, and the trend database of them."""

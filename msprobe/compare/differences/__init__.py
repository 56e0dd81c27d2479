"""The numbers of each row: differences, scales, noise."""

"""Programs of the user that commands run: collected from, or measured for a few steps."""

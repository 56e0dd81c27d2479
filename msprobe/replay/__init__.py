"""One recorded call again: on another device, in a higher precision, with inputs that are moved a little."""

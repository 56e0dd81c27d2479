"""One comparison shared by several processes."""

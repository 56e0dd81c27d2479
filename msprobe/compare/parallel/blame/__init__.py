"""What is to blame: the ranks that hold a wrong value, or the layout that was told."""

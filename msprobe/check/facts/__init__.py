"""What a run says, as immutable facts: each step of each rank, read once, and what follows from all of them."""

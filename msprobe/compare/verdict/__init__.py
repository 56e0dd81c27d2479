"""The verdict about a pair of steps: what leaves them, and what of it the other run lacks."""

"""What is collected of a set-up, from files, the machine and a running training."""

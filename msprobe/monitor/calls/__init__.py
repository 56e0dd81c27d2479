"""What the watched calls of all frameworks share: gradients that arrive one by one, and handles of collectives."""

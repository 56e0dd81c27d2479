"""Calls that move a training on: schedulers, clipping, generation, and gradients that no call clears."""

"""The gradient probe: statistics and signs of gradients at each step of an optimizer, and their comparison."""

"""Gradients that one run records, or computes, in its own way: nodes of autograd, and a loss that is scaled."""

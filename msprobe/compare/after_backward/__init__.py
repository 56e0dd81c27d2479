"""What happens to gradients between the backward pass and the optimizer, as one dump shows it."""

"""What explains a first divergence that no single call shows: settings, gradients, number formats, collectives."""

"""Where calls of PyTorch are observed: modules, functions, operators, collectives, gradients."""

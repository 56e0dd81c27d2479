"""Where calls of MindSpore are observed: cells, functions, primitives, collectives, gradients."""

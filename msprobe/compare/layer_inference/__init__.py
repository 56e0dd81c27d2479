"""The layer map of two models, inferred without a mapping file."""

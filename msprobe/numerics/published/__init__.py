"""The published standards of the accuracy pre-check (policy ``reference``): metrics, categories, both stages."""

"""Watches a training over its steps: small statistics of tensors, written as tables, with alerts."""

"""Observing models that torch.compile compiled."""

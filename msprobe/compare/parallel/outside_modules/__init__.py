"""Calls outside of modules on the ranks of a model: they give no verdict, and explain wrong values."""

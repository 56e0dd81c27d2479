"""Formulas that one side writes otherwise, or computes in another order."""

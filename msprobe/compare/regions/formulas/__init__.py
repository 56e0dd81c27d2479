"""Formulas that one side writes otherwise."""

"""Calls that only one side makes: whether the values that follow from them agree, and where a difference arises."""

"""Rows of the result table: levels, columns, words."""

"""Compiled modules checked against their eager originals while a program runs."""

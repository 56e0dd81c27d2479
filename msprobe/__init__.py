"""msprobe: capture what flows through a training, compare two runs, name the first operation that went wrong.

This file holds the version only, so that ``import msprobe`` costs nothing.
"""

__version__ = "0.1.0"

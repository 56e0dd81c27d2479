"""A framework in memory: numpy arrays with an autograd tape, modules, an optimizer, and a backend for msprobe.

It is small enough to read in one sitting and has what the core can meet anywhere: functions that call functions, in-
place operators, several outputs, keyword arguments, shared leaves, exceptions.
"""

"""The rules, one file for each family; ``msprobe.check.registry`` lists them all."""

"""The model as a graph: dumps in, one SQLite database out that graph viewers read.

from msprobe.visualize.job import Request, visualize
path = visualize(Request(target="run/step0", golden="good/step0", output="graph"))
"""

"""One dump as a graph of modules and calls."""

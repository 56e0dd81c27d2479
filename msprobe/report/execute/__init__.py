"""Where the ranks of a comparison are worked on: here, in local processes, or in a Dask cluster."""

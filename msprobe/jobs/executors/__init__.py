"""Where the ranks of a job are worked on: local processes, or a Dask cluster."""

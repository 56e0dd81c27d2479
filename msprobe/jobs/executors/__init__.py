"""Executors work on the ranks of a job: in local processes, or on a Dask cluster."""

"""Where the rows of a monitored step go, one file per kind of file."""

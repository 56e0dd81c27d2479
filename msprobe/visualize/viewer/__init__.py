"""The viewer of graph databases: one front end, served by a local server or written into one offline page."""

"""Compare the tokens of one request of a server, whatever else was in the batch."""

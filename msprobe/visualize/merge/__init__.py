"""The ranks of one model as one graph: pipeline stages, virtual stages and tensor shards."""

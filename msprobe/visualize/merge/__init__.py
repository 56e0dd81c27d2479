"""Dumps of many ranks to few: pipeline stages, virtual stages and tensor shards of one model drawn as one graph."""

"""Frozen read models, built by the owners of the state: what Describe and List requests and metrics
show. They are values of one moment and know nothing of shards."""

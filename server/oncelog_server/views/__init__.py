"""Frozen read models, built by the owners of the state: Describe and List requests and metrics show
them. They are values of one moment, independent of shards."""

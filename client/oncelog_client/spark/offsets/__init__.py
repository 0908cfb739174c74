"""Offsets as JSON: where a query starts, where a batch ended, how far it has come."""

"""Offsets as JSON: the start of a query, the end of a batch, the progress of a query."""

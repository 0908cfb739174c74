"""Observability for an operator: the broker's log and its metrics."""

"""Frozen read models for Describe and List requests and for metrics. The component that has a state
builds the view of it. A view has the values of one moment, and never changes."""

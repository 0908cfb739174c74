"""Exactly once, while tests kill and pause tasks, executors, drivers and brokers."""

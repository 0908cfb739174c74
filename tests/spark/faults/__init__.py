"""Spark queries write each row exactly once while tests kill and pause tasks, executors, drivers
and brokers."""

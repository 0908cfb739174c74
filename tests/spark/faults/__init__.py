"""Exactly once over kills and pauses of every part: tasks, executors, drivers, brokers."""

"""Exactly once over kills and pauses of all who take part: tasks, executors, drivers, brokers."""

"""Writing topics exactly once: one transaction per task attempt, one decision per micro-batch."""

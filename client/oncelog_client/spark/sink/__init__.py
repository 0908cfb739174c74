"""Writing topics exactly once: one transaction per task attempt, one commit decision per
micro-batch."""

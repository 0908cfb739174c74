"""The running example as a Spark job: exactly once from topic to topic, even if processes
are killed."""

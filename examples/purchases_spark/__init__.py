"""The running example as a Spark job: exactly once from topic to topic, whatever is killed."""

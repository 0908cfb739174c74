"""The running example as a Spark job. It is exactly once from topic to topic, even if processes are
killed."""

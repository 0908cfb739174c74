"""The example `purchases` as a Spark job. Each purchase is processed exactly once from topic to
topic, even if processes are killed."""

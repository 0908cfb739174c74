"""Every order of events of a small Spark and a small broker, with the sink's real state
machines."""

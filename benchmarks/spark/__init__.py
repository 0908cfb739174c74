"""`format("oncelog")` beside Spark's own Kafka connector: `python -m benchmarks.spark`."""

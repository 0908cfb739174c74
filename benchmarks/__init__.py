"""oncelog beside Apache Kafka on the same machine: `python -m benchmarks`; docs/performance.md."""

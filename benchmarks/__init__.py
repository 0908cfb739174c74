"""oncelog beside Apache Kafka on the same computer: `python -m benchmarks`, docs/performance.md."""

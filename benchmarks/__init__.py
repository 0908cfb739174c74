"""oncelog beside Apache Kafka on the same machine: `python -m benchmarks`, see docs/performance.md."""

"""Three brokers of oncelog with etcd beside three nodes of Apache Kafka:
`python -m benchmarks.cluster`."""

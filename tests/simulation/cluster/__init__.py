"""Simulated clusters: several brokers and an etcd in one seeded loop."""

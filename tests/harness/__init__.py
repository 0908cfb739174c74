"""Brokers, a proxy, raw requests and waiting, for all tests. The harness imports no test."""

"""Tests of `format("oncelog")` with real Spark and real brokers."""

"""The broker: serves Kafka's protocol and writes Kafka's files."""

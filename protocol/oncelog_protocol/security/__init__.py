"""SASL without IO, for the broker, its clients and its requests to other brokers."""

"""The protocol of a sink, without IO: its options, plans, messages, steps and durable state."""

"""The running example. Every purchase gets one invoice and one shipment, exactly once, even if
processes are killed."""

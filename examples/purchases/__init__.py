"""The running example: every purchase gets one invoice and one shipment, exactly once, even if
processes are killed."""

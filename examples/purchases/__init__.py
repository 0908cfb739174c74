"""The running example: every purchase gets one invoice and one shipment, exactly once, whatever is
killed."""

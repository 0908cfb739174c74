"""Random frames from the message tables, with hostile fields, beside a working client."""

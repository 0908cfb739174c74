"""Who leads what: the metadata store, the image that brokers see, and what changes it."""

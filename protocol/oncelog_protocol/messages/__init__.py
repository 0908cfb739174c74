"""One module per API, with its request and response: each is one table for all versions."""

"""One module per API, with its request and response. Each is a table of all versions."""

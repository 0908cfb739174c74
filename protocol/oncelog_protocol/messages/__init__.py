"""One module per API: its request and response, each a table of all versions."""

"""One module per API, with the API's request and response. Each of the two is one table for all versions."""

"""One module per API, with its request and its response. One table describes all versions of a
message."""

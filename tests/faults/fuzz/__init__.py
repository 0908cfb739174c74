"""Random requests with hostile fields, generated from the schemas of the protocol's messages. The
broker must survive them and continue to serve another client."""

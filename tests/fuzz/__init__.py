"""Changed bytes for everything that parses what a client, an issuer or an operator gives for
security: frames before authentication, TLS records, stores, JAAS, tokens, requests about access
rules."""

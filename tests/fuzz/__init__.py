"""Changed bytes for every parser of security data from a client, an issuer or an operator: frames
before authentication, TLS records, stores, JAAS, tokens, requests about access rules."""

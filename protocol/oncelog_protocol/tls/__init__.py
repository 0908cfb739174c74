"""TLS with OpenSSL, for the broker and its clients. The only package of oncelog_protocol that acts:
it reads the files of keys and certificates."""

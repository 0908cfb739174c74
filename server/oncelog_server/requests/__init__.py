"""A connection's bytes as frames, and the session and the context in which a request is served."""

"""The tables of the broker's settings: honoured, accepted without effect, refused. Pure."""

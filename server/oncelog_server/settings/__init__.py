"""The tables of the broker's settings: honored, accepted without effect, refused."""

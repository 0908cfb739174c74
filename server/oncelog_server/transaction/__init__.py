"""The transaction coordinator's pure core: states as a table, decisions, replay (KIP-98, 360, 588,
890)."""

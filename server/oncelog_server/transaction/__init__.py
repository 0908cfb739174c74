"""The pure core of the transaction coordinator (KIP-98, 360, 588, 890): tables of states,
decisions, replay."""

"""Record batches as they lie in a log and travel in Produce and Fetch (KIP-98, format v2)."""

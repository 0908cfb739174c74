"""Record batches as in a log and in Produce and Fetch (KIP-98, format v2)."""

"""The seven failures in an article, the transaction deep dive, caused in the purchases pipeline."""

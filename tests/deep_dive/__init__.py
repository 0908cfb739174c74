"""The seven failures in the transaction deep dive, caused in the purchases pipeline."""

"""The seven failures of the transaction deep dive, each inflicted on the purchases pipeline."""

"""`oncelog logs`: logs read from their files, without a broker, and never changed."""

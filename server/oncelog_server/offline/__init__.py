"""Logs read from their files, without a broker and without a change: `oncelog logs`."""

"""Quotas of clients (KIP-13, KIP-124, KIP-599): limits, usage, throttle times. Pure."""

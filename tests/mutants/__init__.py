"""Deliberate defects in the code. The test suite must find each of them."""

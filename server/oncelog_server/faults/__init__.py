"""Fault injection for tests, which breaks a broker at a named step. Only such tests import it."""

"""Fault injection for tests: break a broker at a named step. Imported only if a test asks for
it."""

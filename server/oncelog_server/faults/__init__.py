"""Fault injection for tests, which breaks a broker at a named step. The broker imports this package
only with `--allow-faults`."""

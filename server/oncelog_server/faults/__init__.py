"""Fault injection for tests, which breaks a broker at a named step. The broker imports this package
only if a variable of a fault is set, such as ONCELOG_FAIL_AT."""

"""Every order of events of a small world. The tests explore the broker's own pure packages, as a
model checker explores a specification."""

"""Every order of events of a small world. As a model checker explores a specification, these tests
explore the broker's own pure cores."""

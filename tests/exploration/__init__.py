"""Every order of events in a small world: two producers, two partitions and one coordinator. The
tests explore the broker's own pure packages, as a model checker explores a specification."""

"""Every order of events of a small world, with the pure cores of the broker in it: what a model
checker does with a specification, done with the code."""

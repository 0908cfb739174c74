"""A model of Spark and of a broker, in which a search visits every order of events. The sink's
state machines are the real ones. A world is one state of the whole model."""

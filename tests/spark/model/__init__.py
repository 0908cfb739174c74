"""A small Spark and a small broker, with every order of their events. The sink's state machines are
the real ones."""

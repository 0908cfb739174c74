"""Several brokers on one machine, each in a process of its own (`serve --brokers`)."""

"""The steps of a broker's start: checks of its folder, first topics and users, other brokers."""

"""A second process, which ends the broker's registration if the broker's process has died, or has
stopped and could not end the registration."""

"""A process beside the broker's that ends the broker's registration when the broker's has died, or
could not end it at its stop."""

"""The clients of a simulated world, and their records of what they do."""

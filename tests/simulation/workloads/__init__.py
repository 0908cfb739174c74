"""The clients of a simulated world, and the records of their operations."""

"""Example programs that use oncelog."""

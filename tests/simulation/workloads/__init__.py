"""What clients do in a simulated world, and write down of it."""

"""Which test shows which scenario: read from the tests' names."""

"""The scenarios and the tests that show them, read from the names of the tests."""

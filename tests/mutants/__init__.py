"""Defects put into the code on purpose, to see that the suite finds each of them."""

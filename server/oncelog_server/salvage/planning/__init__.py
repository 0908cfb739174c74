"""The facts that the folders show, and a plan to make the metadata agree with them."""

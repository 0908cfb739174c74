"""The facts that folders prove, and the plan that makes the metadata agree with them."""

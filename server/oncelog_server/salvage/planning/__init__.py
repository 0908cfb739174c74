"""The facts that partitions' folders show, and a plan that makes the metadata agree with them."""

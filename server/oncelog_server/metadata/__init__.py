"""The edge to the cluster's metadata: stores, and the image kept up to date from one."""

"""The cluster's metadata: the store's interface, the image that brokers read, and its changes."""

"""A simulated etcd: the JSON gateway of one or three members over one state."""

"""The metadata store of a cluster of several brokers: etcd, over its JSON gateway."""

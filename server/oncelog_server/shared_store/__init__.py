"""The metadata store of several brokers on one machine, without etcd: the first broker serves its
own store to the others over a Unix socket."""

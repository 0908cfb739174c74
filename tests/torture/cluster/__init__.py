"""Producers and transactional copy loops on three brokers and three members of etcd, while brokers
are killed and suspended, networks are cut, and the leader of etcd is killed. All is audited."""

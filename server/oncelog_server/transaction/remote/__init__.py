"""Coordination with other brokers: the shards of transactional ids and of groups that they lead."""

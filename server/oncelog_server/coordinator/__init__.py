"""The parts that both coordinators share: the shards of an internal partition, and their loading
and routing."""

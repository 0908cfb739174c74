"""The parts that both coordinators share: shards of an internal partition, their loading and
routing."""

"""The real process under faults of bytes, disks, descriptors, clients and signals."""

"""The real process under damage: bytes, disks, descriptors, clients and signals that go wrong."""

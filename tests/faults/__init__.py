"""A real process with faulty bytes, disks, descriptors, clients and signals."""

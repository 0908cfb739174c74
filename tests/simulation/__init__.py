"""The whole of oncelog in one thread, from one seed. The event loop, the network and the disk are
simulated; the code is the real one."""

"""The whole of oncelog in one thread, from one seed: loop, network and disk are simulated, the code
is the real one."""

"""The whole of oncelog in one thread, repeatable from one seed. The event loop, the network and the
disk are simulated. The broker and the clients are the real code."""

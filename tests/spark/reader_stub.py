"""The Python that Spark starts for the reads of a stream: see `forked_readers.py`."""

import os
import socket
import sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
    connection.connect(f"\0{sys.argv[1]}")
    variables = [b"=".join(item) for item in os.environb.items()]
    socket.send_fds(connection, [b"\0".join([os.getcwdb(), *variables])], [0, 1, 2])
    connection.recv(1)  # returns when the fork has ended

"""A process of clients that never authenticate: silent ones, trickling ones, and clients that shake
hands at a rate. A client that the broker closes connects again at once."""

from __future__ import annotations

import errno
import multiprocessing
import os
import random
import selectors
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Set
from itertools import cycle
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

from benchmarks import machine

# Time between two bytes of a trickling client.
TRICKLE_S: Final = 1.0
# A ClientHello has more bytes than a client can send before its deadline.
TRICKLED: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(400)
ESTABLISHED_TIMEOUT_S: Final = 60.0
READ_BYTES: Final = 16 << 10
SEED: Final = 1


class Load(NamedTuple):
    """The numbers of silent and of trickling clients, and the rate of handshakes."""

    silent: int = 1_000
    trickling: int = 1_000
    handshakes_per_s: int = 200


class Flood:
    """A context manager. In its block, all silent and trickling clients are connected to `address`,
    which is a listener with TLS. `counts`: after the block, the numbers of handshakes that were
    completed or failed, and of clients that connected again.

    With a low priority, the process takes no time of a client that is measured.
    """

    def __init__(
        self, address: str, load: Load, cores: Set[int], priority: machine.Priority
    ) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.counts: Counter[str] = Counter()
        self._pipe, theirs = spawn.Pipe()
        with machine.on_cores(cores):
            self._process = spawn.Process(
                target=_flood, args=(theirs, address, load, priority), daemon=True
            )
            self._process.start()

    def __enter__(self) -> Flood:
        if not self._pipe.poll(ESTABLISHED_TIMEOUT_S):
            raise TimeoutError(f"not all clients connected within {ESTABLISHED_TIMEOUT_S} s")
        self._pipe.recv()
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.send("end")
        self.counts = self._pipe.recv()
        self._process.join()


class _Client(ABC):
    """A client with a socket that does not block."""

    def __init__(self, crowd: _Crowd, slot: int = 0) -> None:
        self._crowd = crowd
        self.slot = slot
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.is_connected = False
        code = self.socket.connect_ex(crowd.address)
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, os.strerror(code))
        crowd.selector.register(self.socket, selectors.EVENT_WRITE, self)

    def ready(self) -> None:
        """Continue after the socket is connected or readable."""
        try:
            if not self.is_connected:
                self.is_connected = True
                self._crowd.selector.modify(self.socket, selectors.EVENT_READ, self)
                self.connected()
            else:
                self.received(self.socket.recv(READ_BYTES))
        except OSError:
            self.received(b"")

    def close(self) -> None:
        self._crowd.selector.unregister(self.socket)
        self.socket.close()

    @abstractmethod
    def connected(self) -> None:
        """Send the first bytes, if any."""

    @abstractmethod
    def received(self, data: bytes) -> None:
        """Take bytes of the broker. The bytes are empty if the broker has closed the connection."""


class _Silent(_Client):
    """Has a slot in the crowd, which a new client takes if the broker closes this one."""

    def connected(self) -> None:
        """Send nothing."""

    def received(self, data: bytes) -> None:
        if not data:
            self._crowd.replace(self)


class _Trickling(_Silent):
    def __init__(self, crowd: _Crowd, slot: int) -> None:
        super().__init__(crowd, slot)
        self._sent = 0

    def send_byte(self) -> None:
        if self.is_connected:
            try:
                self.socket.send(TRICKLED[self._sent : self._sent + 1])
                self._sent += 1
            except OSError:
                self._crowd.replace(self)


class _Shaking(_Client):
    """Closes the connection as soon as the handshake is complete."""

    def __init__(self, crowd: _Crowd) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = crowd.context.wrap_bio(self._incoming, self._outgoing)
        super().__init__(crowd)

    def connected(self) -> None:
        self._continue()

    def received(self, data: bytes) -> None:
        if data:
            self._incoming.write(data)
            self._continue()
        else:
            self._end("failed")

    def _continue(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self.socket.send(self._outgoing.read())
            return
        self.socket.send(self._outgoing.read())
        self._end("completed")

    def _end(self, outcome: str) -> None:
        self._crowd.counts[outcome] += 1
        self.close()


class _Crowd:
    """All clients of one process."""

    def __init__(self, address: tuple[str, int], load: Load) -> None:
        self.address = address
        self.selector = selectors.DefaultSelector()
        self.counts: Counter[str] = Counter()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE
        self._load = load
        self._silent = [_Silent(self, slot) for slot in range(load.silent)]
        self._trickling = [_Trickling(self, slot) for slot in range(load.trickling)]

    def replace(self, client: _Silent) -> None:
        """Connect again in place of a client that the broker has closed."""
        client.close()
        if isinstance(client, _Trickling):
            self._trickling[client.slot] = _Trickling(self, client.slot)
        else:
            self._silent[client.slot] = _Silent(self, client.slot)
        self.counts["connected again"] += 1

    @property
    def is_established(self) -> bool:
        return all(client.is_connected for client in (*self._silent, *self._trickling))

    def run(self, pipe: Connection) -> None:
        """Flood until a message comes by the pipe."""
        # Handshakes at random times do not keep step with a client that is measured.
        randomness = random.Random(SEED)
        is_established = False
        next_handshake = next_byte = time.monotonic()
        slots = cycle(range(self._load.trickling))
        while not pipe.poll():
            now = time.monotonic()
            while self._load.handshakes_per_s and next_handshake <= now:
                next_handshake += randomness.expovariate(self._load.handshakes_per_s)
                _Shaking(self)
            while self._load.trickling and next_byte <= now:
                next_byte += TRICKLE_S / self._load.trickling
                self._trickling[next(slots)].send_byte()
            for key, _ in self.selector.select(0.001):
                key.data.ready()
            if not is_established and self.is_established:
                is_established = True
                pipe.send("established")


def _flood(pipe: Connection, address: str, load: Load, priority: machine.Priority) -> None:
    priority.give(os.getpid())
    host, port = address.rsplit(":", 1)
    crowd = _Crowd((socket.gethostbyname(host), int(port)), load)
    crowd.run(pipe)
    pipe.recv()
    pipe.send(crowd.counts)

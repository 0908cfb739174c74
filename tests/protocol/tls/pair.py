"""Two engines that exchange their bytes in memory."""

from __future__ import annotations

from oncelog_protocol.tls.engine import TlsEngine


def carry(sender: TlsEngine, receiver: TlsEngine, piece: int = 1 << 20) -> int:
    """Give the receiver all that the sender has for it, in pieces. Return the number of bytes."""
    data = sender.outgoing()
    for start in range(0, len(data), piece):
        receiver.received(data[start : start + piece])
    return len(data)


def shake_hands(client: TlsEngine, server: TlsEngine, piece: int = 1 << 20) -> None:
    """Complete the handshake of both. Raises TlsFailed."""
    done = [False, False]
    moved = 1
    while moved or not all(done):
        assert moved, "neither side sends anything"
        done[0] = client.handshake()
        moved = carry(client, server, piece)
        try:
            done[1] = server.handshake()
        finally:
            moved += carry(server, client, piece)


def read_all(engine: TlsEngine, size: int = 64 << 10) -> bytes:
    """Return all bytes that have arrived."""
    buffer = memoryview(bytearray(size))
    found = bytearray()
    while count := engine.read(buffer):
        found += buffer[:count]
    return bytes(found)

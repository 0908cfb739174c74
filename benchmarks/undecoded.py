"""Requests and responses of one connection, as bytes."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Any

from benchmarks.beside import ANSWER_TIMEOUT_S, receive
from oncelog_protocol.apis import api_of
from oncelog_protocol.codecs import decode, encode
from oncelog_protocol.frames import frame
from oncelog_protocol.headers import read_response_header, write_request_header


class Failed(Exception):
    """A load got a wrong response."""


class UndecodedClient:
    """One connection. `ask` reads a response whole and does not decode it, because decoding would
    keep this process busy."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=ANSWER_TIMEOUT_S)

    def __enter__(self) -> UndecodedClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, prepared: bytes) -> None:
        self._socket.sendall(prepared)

    def receive(self) -> bytes:
        return receive(self._socket)

    def ask(self, prepared: bytes) -> bytes:
        """Send the request. Return the undecoded response."""
        self.send(prepared)
        return self.receive()


def prepared(request: Any, version: int) -> bytes:
    """Return the request as bytes."""
    header = write_request_header(api_of(type(request)).key, version, 1, "stalls")
    return b"".join(map(bytes, frame([header, encode(request, version)])))


def read(request: type, version: int, answer: bytes) -> Any:
    """Return the decoded response to a request of this type and version."""
    api = api_of(request)
    _, position = read_response_header(api.key, version, answer)
    return decode(api.response, version, answer[position:])


def check(codes: Iterable[int]) -> None:
    """Raise Failed if there is an error code."""
    bad = [code for code in codes if code]
    if bad:
        raise Failed(f"{len(bad)} errors, the first is {bad[0]}")

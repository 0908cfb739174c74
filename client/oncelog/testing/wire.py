"""A plain connection for raw requests that no client would send."""

from __future__ import annotations

import socket
from collections import deque
from types import TracebackType
from typing import Any, Self

from oncelog_protocol.apis import api_of
from oncelog_protocol.requests import Requests

ANSWER_TIMEOUT_S = 20.0


class Closed(Exception):
    """The broker closed the connection without a response."""


class Wire:
    """Blocking calls over one socket; a context manager."""

    def __init__(self, address: str, client_id: str | None = "wire") -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=ANSWER_TIMEOUT_S)
        # As Kafka's clients do: otherwise the first request after a TLS handshake waits 40 ms.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._requests = Requests(client_id)
        self._answers: deque[Any] = deque()

    def call(self, request: Any, version: int | None = None) -> Any:
        """Return the response to `request`, by default in the latest version that oncelog has.

        Raises Closed, TimeoutError after 20 s, and ProtocolError for an unreadable response.
        """
        self.send(request, version)
        return self.answer()

    def send(self, request: Any, version: int | None = None, *, answered: bool = True) -> None:
        """Write the request and return at once. Without `answered`, no response is expected."""
        chosen = api_of(type(request)).latest if version is None else version
        _, parts = self._requests.send(request, chosen, answered=answered)
        self.socket.sendall(b"".join(bytes(part) for part in parts))

    def answer(self) -> Any:
        """Return the response to the oldest request that has none."""
        while not self._answers:
            data = self.socket.recv(1 << 16)
            if not data:
                raise Closed
            self._answers.extend(task.message for task in self._requests.receive_data(data))
        return self._answers.popleft()

    def is_closed(self) -> bool:
        """Wait, and return True if the broker closes the connection without sending more bytes."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.socket.close()

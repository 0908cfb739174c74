"""A blocking connection to one leader, for Fetch requests only.

Spark's Python worker is one thread that decodes what it reads. With an event loop in a second
thread, both would compete for the interpreter at every piece that arrives. Here the kernel receives
a response while the worker decodes the previous response.
"""

from __future__ import annotations

import socket
from typing import Final

from oncelog_client.connect_failures import Address
from oncelog_client.core.consumer_config import ConsumerConfig
from oncelog_client.errors import DisconnectedError, TimedOutError
from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.frames import check_size, read_size
from oncelog_protocol.messages.fetch import FetchRequest, FetchResponse
from oncelog_protocol.requests import Requests

_SIZE_BYTES: Final = 4
# The next response may be a bit larger than the largest so far.
_ROOM_FOR_MORE: Final = 1 << 16
# A response may exceed the requested bytes by a batch. This limit is only for invalid lengths.
_MAX_RESPONSE_BYTES: Final = (1 << 31) - 1


class FetchSocket:
    """A connection, which the constructor opens. After any error the caller must close it.

    `version` is the version of Fetch that another connection has negotiated with this broker.
    """

    def __init__(self, address: Address, version: int, config: ConsumerConfig) -> None:
        """Connect. Raises DisconnectedError or TimedOutError."""
        self.address = address
        self._version = version
        self._requests = Requests(config.client_id)
        self._buffer = bytearray(_ROOM_FOR_MORE)
        timeout_s = config.socket_connection_setup_timeout_ms / 1000
        host, port = address
        try:
            self._socket = socket.create_connection(address, timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout((config.request_timeout_ms + config.fetch_max_wait_ms) / 1000)
        except TimeoutError:
            raise TimedOutError(f"no connection to {host}:{port} within {timeout_s:g} s") from None
        except Exception as error:
            # Not only OSError: metadata may have an invalid host or port, which raises other
            # errors.
            raise DisconnectedError(f"no connection to {host}:{port}: {error}") from error

    @property
    def busy(self) -> bool:
        """Return True if a response is outstanding."""
        return len(self._requests) > 0

    def send(self, request: FetchRequest) -> None:
        """Send a request. Raises DisconnectedError or TimedOutError."""
        _, parts = self._requests.send(request, self._version)
        try:
            self._socket.sendall(b"".join(parts))
        except TimeoutError:
            raise self._timed_out() from None
        except OSError as error:
            raise self._disconnected(error) from error

    def receive(self) -> FetchResponse:
        """Wait for the response to the oldest request, and return it. Raises DisconnectedError,
        also for an invalid response, or TimedOutError after `request_timeout_ms` plus
        `fetch_max_wait_ms` without a byte.

        The response's records are in a buffer that the next call overwrites.
        """
        try:
            (size,) = read_size(self._take(_SIZE_BYTES))
            answer = self._requests.answer(self._take(check_size(size, _MAX_RESPONSE_BYTES)))
        except TimeoutError:
            raise self._timed_out() from None
        except (OSError, ProtocolError) as error:
            raise self._disconnected(error) from error
        assert isinstance(answer.message, FetchResponse)
        return answer.message

    def _take(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = bytearray(size + _ROOM_FOR_MORE)
        taken = missing = memoryview(self._buffer)[:size]
        while len(missing):
            count = self._socket.recv_into(missing)
            if not count:
                raise ConnectionError("the broker closed the connection")
            missing = missing[count:]
        return taken

    def _timed_out(self) -> TimedOutError:
        host, port = self.address
        return TimedOutError(f"{host}:{port} sent no response to Fetch")

    def _disconnected(self, error: Exception) -> DisconnectedError:
        host, port = self.address
        return DisconnectedError(f"{host}:{port}: {error}")

    def close(self) -> None:
        self._socket.close()

"""A blocking connection to one leader that carries Fetch requests and nothing else.

Spark's Python worker is one thread that decodes what it reads. With an event loop in a second one
each would wait for the other's turn at the interpreter at every piece that arrives; here the kernel
takes an answer in while the one before is being decoded.
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
# The next answer may be a bit larger than the largest so far.
_ROOM_FOR_MORE: Final = 1 << 16
# One batch may be larger than what was asked for, so this only stops nonsense.
_MAX_ANSWER_BYTES: Final = (1 << 31) - 1


class FetchSocket:
    """Open from the start. After any error it is of no use any more: close it.

    `version` is that of Fetch, as another connection has negotiated it with this broker.
    """

    def __init__(self, address: Address, version: int, config: ConsumerConfig) -> None:
        """Raises DisconnectedError or TimedOutError."""
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
            # Also a port or a host that cannot be one: metadata may name anything.
            raise DisconnectedError(f"no connection to {host}:{port}: {error}") from error

    @property
    def busy(self) -> bool:
        """Whether an answer is on its way."""
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
        """The answer to the oldest request, waiting for it. Raises DisconnectedError, also where
        it makes no sense, or TimedOutError when nothing comes for as long as a request may take.

        The records in it are in a buffer that is used again: they hold until the next call.
        """
        try:
            (size,) = read_size(self._take(_SIZE_BYTES))
            answer = self._requests.answer(self._take(check_size(size, _MAX_ANSWER_BYTES)))
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
        return TimedOutError(f"{host}:{port} did not answer Fetch")

    def _disconnected(self, error: Exception) -> DisconnectedError:
        host, port = self.address
        return DisconnectedError(f"{host}:{port}: {error}")

    def close(self) -> None:
        self._socket.close()

"""Measures the time from a complete request to its encoded response, for each API. Only a broker
with a port for metrics does this."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from oncelog_protocol.apis import APIS
from oncelog_protocol.headers import REQUEST_START
from oncelog_server.deferred import Deferred
from oncelog_server.latencies import Latencies
from oncelog_server.network.listener import Requests
from oncelog_server.requests.response import EncodedResponse
from oncelog_server.requests.session import Session


class TimedRequests:
    """Lets `requests` serve each request, and measures the time. As in Kafka, the time of a Fetch
    contains its wait for records."""

    def __init__(self, requests: Requests, monotonic_ns: Callable[[], int]) -> None:
        self._requests = requests
        self._monotonic_ns = monotonic_ns
        self._latencies: dict[int, Latencies] = {}

    def serve(self, frame: memoryview, session: Session) -> EncodedResponse:
        """Serve a request. Raises ProtocolError to close the connection."""
        began_ns = self._monotonic_ns()
        response = self._requests.serve(frame, session)
        # The request was decoded, so its frame has a key.
        key = REQUEST_START.unpack_from(frame)[0]
        if isinstance(response, Deferred):
            response.on_complete(lambda parts: self._add(key, began_ns))
        else:
            self._add(key, began_ns)
        return response

    def _add(self, key: int, began_ns: int) -> None:
        latencies = self._latencies.get(key)
        if latencies is None:
            latencies = self._latencies[key] = Latencies()
        latencies.add((self._monotonic_ns() - began_ns) // 1000)

    def by_api(self) -> Iterator[tuple[str, Latencies]]:
        """Yield (API's name, latencies) for each API with a request since the start."""
        for key, latencies in sorted(self._latencies.items()):
            yield APIS[key].name, latencies

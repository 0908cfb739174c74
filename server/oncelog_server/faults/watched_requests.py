"""Serves requests, with a fail point before a response is sent."""

from __future__ import annotations

import struct
from typing import Final

from oncelog_server.deferred import Deferred, then
from oncelog_server.faults.points import ANSWERS
from oncelog_server.faults.trap import Trap
from oncelog_server.network.connection import EncodedResponse, Parts
from oncelog_server.network.listener import Requests
from oncelog_server.requests.session import Session

_API_KEY: Final = struct.Struct(">h")


class WatchedRequests:
    """Lets `requests` serve each request. Before the response is sent, `trap` is reached if it is
    set at the fail point of this API."""

    def __init__(self, requests: Requests, trap: Trap) -> None:
        self._requests = requests
        self._trap = trap

    def serve(self, frame: memoryview, session: Session) -> EncodedResponse:
        (key,) = _API_KEY.unpack_from(frame)
        response = self._requests.serve(frame, session)
        name = ANSWERS.get(key)
        if name is None or name != self._trap.name:
            return response
        trap = self._trap

        def leaving(parts: Parts) -> Parts:
            trap.reached(name)
            return parts

        if isinstance(response, Deferred):
            return then(response, leaving)
        return None if response is None else leaving(response)

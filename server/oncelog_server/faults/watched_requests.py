"""A server of requests with fail points before the responses leave."""

from __future__ import annotations

import struct
from typing import Final

from oncelog_server.deferred import Deferred, then
from oncelog_server.faults.points import ANSWERS
from oncelog_server.faults.trap import Trap
from oncelog_server.network.connection import Answer, Parts
from oncelog_server.network.listener import Requests
from oncelog_server.network.session import Session

_API_KEY: Final = struct.Struct(">h")


class WatchedRequests:
    def __init__(self, requests: Requests, trap: Trap) -> None:
        self._requests = requests
        self._trap = trap

    def serve(self, frame: memoryview, session: Session) -> Answer:
        (key,) = _API_KEY.unpack_from(frame)
        answer = self._requests.serve(frame, session)
        name = ANSWERS.get(key)
        if name is None or name != self._trap.name:
            return answer
        trap = self._trap

        def leaving(parts: Parts) -> Parts:
            trap.reached(name)
            return parts

        if isinstance(answer, Deferred):
            return then(answer, leaving)
        return None if answer is None else leaving(answer)

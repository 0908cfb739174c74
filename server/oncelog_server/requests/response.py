"""The types of an encoded response, and the exception of a request that has failed by a defect."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_server.deferred import Deferred
from oncelog_server.log.results import FileRange
from oncelog_server.requests.session import Session
from oncelog_server.storage.files import Buffer

Part = Buffer | FileRange
Parts = list[Part]
# The parts of a response, or a deferred response. None if the client wants no response (acks=0).
EncodedResponse = Parts | Deferred[Parts] | None
# Serves the frame of a request. Raises ProtocolError to close the connection.
Serve = Callable[[memoryview, Session], EncodedResponse]


class RequestFailed(Exception):
    """A request failed because of a defect. The `__cause__` is the defect's exception. `asked` has
    the fields that describe the request in the log event."""

    def __init__(self, **asked: object) -> None:
        super().__init__(asked)
        self.asked = asked

"""The form of a response on its way from a handler to the connection."""

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

"""Checks each request of a client with few rights when the broker serves it (I20).

The client's requests name a single resource, so a request with any denied right is denied as a
whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from oncelog_server.broker import Broker
from oncelog_server.security.authorizer import Authorizer, Subject
from oncelog_server.security.resources import Operation, Resource, ResourceType
from tests.simulation.effects import changed, state_of
from tests.simulation.users import ids_of_others

# The name of the right that a request with the producer id of another user lacks.
OWN_ID: Final = "a producer id of its user"


class Recording:
    """An authorizer that records the rights that the present request lacks."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self.lacking: list[str] = []

    def authorize(self, subject: Subject, operation: Operation, resource: Resource) -> bool:
        allowed = self._authorizer.authorize(subject, operation, resource)
        if not allowed:
            self.lacking.append(f"{operation.name} {resource.type.name}")
        return allowed

    def authorize_any(self, subject: Subject, operation: Operation, type: ResourceType) -> bool:
        return self._authorizer.authorize_any(subject, operation, type)

    def denied(self, *request: Any, logged: bool) -> None:
        self._authorizer.denied(*request, logged=logged)


class DeniedRequests:
    """Serves the requests of a broker. `host`: the client with the denied requests that are
    checked. `broker` returns the broker, or None during its start."""

    def __init__(
        self,
        dispatch: Any,
        host: str,
        broker: Callable[[], Broker | None],
        found: Callable[[str, list[str]], None],
    ) -> None:
        """`found` gets a denied right, and the parts of the broker that the request changed."""
        self._dispatch = dispatch
        self._host = host
        self._broker = broker
        self._found = found
        self._recording = dispatch._authorizer = Recording(dispatch._authorizer)

    def serve(self, frame: memoryview, session: Any) -> Any:
        broker = self._broker() if session.host == self._host else None
        if broker is None:
            return self._dispatch.serve(frame, session)
        self._recording.lacking.clear()
        before, of_others = state_of(broker), ids_of_others(broker)
        response = self._dispatch.serve(frame, session)
        if ids_of_others(broker) > of_others:
            self._recording.lacking.append(OWN_ID)
        if self._recording.lacking:
            self._found(self._recording.lacking[0], changed(before, state_of(broker)))
        return response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatch, name)

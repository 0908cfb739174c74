"""The owners of producer ids. An id belongs to the principal for which its block was taken. Other
principals may not use it (KIP-98, section Authorization, leaves this open; scenario H49).

An id of a block without an owner belongs to every principal. Such ids are those of User:ANONYMOUS,
and those that an older release has assigned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from oncelog_protocol.apis import APIS
from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.producer_ids import BLOCK_SIZE
from oncelog_server.refusal import Refused
from oncelog_server.security.audit import BoundedEvents
from oncelog_server.security.authorizer import Subject
from oncelog_server.security.resources import Principal

_NO_OWNERS: Final[Mapping[int, Principal]] = {}


class Request(Protocol):
    """A request, with its session."""

    @property
    def session(self) -> Subject: ...

    @property
    def api_key(self) -> int: ...


def _ignore(count: int, **fields: object) -> None:
    pass


class ProducerIdOwners:
    """The owners in the newest metadata image. `log(count, **fields)` gets the requests with an id
    of another principal: the first of a principal and an owner at once, then at most one event a
    minute."""

    __slots__ = ("_events", "by_block", "refused")

    def __init__(
        self,
        log: Callable[..., None] = _ignore,
        monotonic_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        # Empty if no block has an owner. Every Produce reads this attribute.
        self.by_block = _NO_OWNERS
        # Number of refused uses since the start.
        self.refused = 0
        self._events = BoundedEvents(log, monotonic_ms)

    def follow(self, by_block: Mapping[int, Principal]) -> None:
        """Set the owners to those of the newest image."""
        self.by_block = by_block

    def owner_of(self, producer_id: int) -> str:
        """Return the owner of an id as text, an empty text if the id belongs to every principal."""
        owner = self.by_block.get(producer_id // BLOCK_SIZE)
        return "" if owner is None else str(owner)

    def may_use(self, request: Request, producer_id: int) -> bool:
        """Return True if the id is of the request's principal, or of every principal."""
        owner = self.by_block.get(producer_id // BLOCK_SIZE)
        session = request.session
        if owner is None or owner == session.principal:
            return True
        self.refused += 1
        self._events.add(
            (session.principal, owner),
            principal=str(session.principal),
            host=session.host,
            listener=session.listener,
            api=APIS[request.api_key].name,
            producer_id=producer_id,
            owner=str(owner),
        )
        return False

    def require(self, request: Request, producer_id: int) -> None:
        """Raise Refused (INVALID_PRODUCER_ID_MAPPING) if the id is of another principal."""
        if not self.may_use(request, producer_id):
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, OF_ANOTHER.format(producer_id))

    def flush(self) -> None:
        """Log the requests that were counted and not logged, because the broker stops."""
        self._events.flush()


OF_ANOTHER: Final = "producer id {} belongs to another principal: request one (InitProducerId)"

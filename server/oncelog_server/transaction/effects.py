"""One struct for each effect that a decision about transactional ids has in addition to its
records. A table (`EFFECTS` in `shard.py`, and the coordinator's own rows) says what the runtime
does for each effect, and at which moment.
"""

from __future__ import annotations

import msgspec

from oncelog_server.coordinator.shard import CoordinatorRecord
from oncelog_server.transaction.caller import Client
from oncelog_server.transaction.fences import Fence, FenceCause
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.markers import MarkerWork
from oncelog_server.transaction.metadata import TransactionMetadata
from oncelog_server.transaction.results import TransactionResult


class Pending(msgspec.Struct, frozen=True):
    """A record makes `target` the state of an id. The id is busy until the record is committed or
    has failed."""

    target: TransactionMetadata
    record: CoordinatorRecord


class GenerationPending(msgspec.Struct, frozen=True):
    """A record makes an id a member of a group, in the generation of `membership`. Until the record
    is committed or has failed, the id counts as a member, and requests of older generations
    wait."""

    transactional_id: str
    membership: GroupAssignment
    at_ms: int
    client: Client | None


class PointerPending(msgspec.Struct, frozen=True):
    """A record changes the pointer of an id to its group. The id is busy until the record is
    committed or has failed."""

    transactional_id: str


class Fenced(msgspec.Struct, frozen=True):
    """Once the decision is committed, the producer of `fence` is refused."""

    fence: Fence


class ProducerRefused(msgspec.Struct, frozen=True):
    """A request of this producer was refused. The effect counts the refused request, and logs the
    first one."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class RefusalCounted(msgspec.Struct, frozen=True):
    """A request with an unknown id was refused. `cause` is None if the unknown id is the only
    cause."""

    cause: FenceCause | None = None


class ClientKnown(msgspec.Struct, frozen=True):
    """From the commit on, `client` is known as the client of the producer."""

    transactional_id: str
    client: Client | None


class StartTimer(msgspec.Struct, frozen=True):
    """From the commit on, the transaction is aborted at `deadline_ms` (monotonic)."""

    transactional_id: str
    deadline_ms: int


class WriteMarkers(msgspec.Struct, frozen=True):
    """Once the decision is committed, the coordinator sends the markers of these transactions, in
    this order."""

    transactional_ids: tuple[str, ...]


class ReleaseResponse(msgspec.Struct, frozen=True):
    """Once the decision is committed, the parked EndTxn of this id gets `result`."""

    transactional_id: str
    result: TransactionResult


class CompleteLater(msgspec.Struct, frozen=True):
    """If the append of COMPLETE fails, the coordinator retries the append after the back-off of
    `attempt`."""

    work: MarkerWork
    attempt: int

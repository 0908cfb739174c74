"""What a decision about transactional ids makes happen besides its records, as values.

A decide function returns them. The runtime takes each to its row in a table (`EFFECTS` in
`shard.py`, and the coordinator's own rows), which says what to do at which moment.
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
    """`record` says `target`. Until it is committed or has failed, the id is busy."""

    target: TransactionMetadata
    record: CoordinatorRecord


class GenerationPending(msgspec.Struct, frozen=True):
    """A record brings a generation to the group of `membership`. Until it is committed or has
    failed, older generations have to wait."""

    membership: GroupAssignment
    at_ms: int
    client: Client | None


class Fenced(msgspec.Struct, frozen=True):
    """Once the decision is committed, the producer of `fence` is refused."""

    fence: Fence


class ProducerRefused(msgspec.Struct, frozen=True):
    """A request of this producer is refused: counted, and logged the first time."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class RefusalCounted(msgspec.Struct, frozen=True):
    """A request is refused whose id is unknown here. `cause`: None if that is the only cause."""

    cause: FenceCause | None = None


class ClientKnown(msgspec.Struct, frozen=True):
    """From the commit on, `client` has the producer of the id."""

    transactional_id: str
    client: Client | None


class StartTimer(msgspec.Struct, frozen=True):
    """From the commit on, the transaction is aborted at `deadline_ms` (monotonic)."""

    transactional_id: str
    deadline_ms: int


class WriteMarkers(msgspec.Struct, frozen=True):
    """Once the decision is committed, the markers of these transactions are sent, in this order."""

    transactional_ids: tuple[str, ...]


class ReleaseResponse(msgspec.Struct, frozen=True):
    """Once the decision is committed, the parked EndTxn of this id gets `result`."""

    transactional_id: str
    result: TransactionResult


class CompleteLater(msgspec.Struct, frozen=True):
    """If the append of COMPLETE fails, it is tried again after the back-off of `attempt`."""

    work: MarkerWork
    attempt: int

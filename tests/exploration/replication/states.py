"""The frozen state of a broker. A step makes the broker's objects from one state, and the next
state from the objects."""

from __future__ import annotations

from typing import NamedTuple

from oncelog_server.cluster.store import Write
from oncelog_server.fetcher.followed import Phase
from oncelog_server.replica.isr_changes import IsrProposal
from tests.exploration.replication.log_model import Batch, Batches, Read

UNKNOWN = -1


class FollowerState(NamedTuple):
    """What a leader knows of a follower (`Follower`). Times are NOW_MS or LONG_AGO_MS."""

    broker_id: int
    broker_epoch: int
    log_end_offset: int
    last_fetch_ms: int
    leader_end_at_last_fetch: int
    last_caught_up_ms: int


class ReplicasState(NamedTuple):
    """The ISR and the followers (`Replicas`), also those of an earlier leadership."""

    isr: tuple[int, ...]
    assignment: tuple[int, ...]
    leader_id: int
    epoch_start_offset: int
    partition_epoch: int
    proposed_isr: tuple[int, ...]
    joining: tuple[int, ...]
    has_elr: bool
    followers: tuple[FollowerState, ...]


class Row(NamedTuple):
    """A partition's row in a Fetch."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int


class FollowedState(NamedTuple):
    """A partition in a fetcher (`Followed`)."""

    leader_epoch: int
    phase: Phase


class FetcherState(NamedTuple):
    """A fetcher and its session. `sent`: the row of the request in flight, None without one.
    `is_changed`: the next request has the row."""

    leader_id: int
    followed: FollowedState | None
    row: Row | None
    sent: Row | None
    is_changed: bool


class ProcessState(NamedTuple):
    """The memory of a broker.

    `number`: how many processes the broker has had. `image`: the number of the store that the
    process sees. `waiting`: the appends that wait for their commit, each with its end offset and
    its batch. `unknown` and `refused`: partition epochs of `IsrUpdates`. `flushing`: the end of the
    flush in flight, UNKNOWN without one. `is_flush_due`: another flush follows.
    """

    number: int
    image: int
    leader_id: int
    leader_epoch: int
    leads: bool
    high_watermark: int
    epochs: tuple[tuple[int, int], ...]
    waiting: tuple[tuple[int, Batch], ...]
    replicas: ReplicasState
    unknown: int
    refused: int
    fetchers: tuple[FetcherState, ...]
    flushing: int
    is_flush_due: bool


class BrokerState(NamedTuple):
    """A broker: its disk and, if it is up, its process. `recovery_point`: a power loss drops the
    batches from this offset on. `checkpoint`: the high watermark on disk. `clean_stop`: the broker
    epoch in the mark of a clean stop, 0 without it. `boot`: the number of power losses. `lost`: the
    newest broker epoch in which a power loss may have dropped records."""

    batches: Batches = ()
    recovery_point: int = 0
    checkpoint: int = 0
    clean_stop: int = 0
    boot: int = 0
    lost: int = 0
    processes: int = 0
    process: ProcessState | None = None

    @property
    def leads(self) -> bool:
        return self.process is not None and self.process.leads

    @property
    def high_watermark(self) -> int:
        return 0 if self.process is None else self.process.high_watermark


class Request(NamedTuple):
    """A Fetch of a follower. `is_awaited` is False if the process that sent it has ended."""

    follower: int
    leader: int
    broker_epoch: int
    row: Row
    is_awaited: bool = True


class Response(NamedTuple):
    """The response to `request`."""

    request: Request
    code: int
    high_watermark: int = UNKNOWN
    read: Read | None = None
    diverging: tuple[int, int] | None = None


class PendingWrite(NamedTuple):
    """A write on its way to the store. `proposal` is None for a write of the controller.
    `is_awaited`: the leader does not know an outcome yet."""

    owner: int
    write: Write
    proposal: IsrProposal | None = None
    is_awaited: bool = False


class Effects(NamedTuple):
    """What a step of a broker does outside of it: its writes, its request or response, and the
    rules that the step violates."""

    writes: tuple[PendingWrite, ...] = ()
    message: Request | Response | None = None
    wrong: tuple[str, ...] = ()

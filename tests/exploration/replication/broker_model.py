"""A broker of the exploration: the real partition, followers, ISR updates and fetcher, around the
model of a log. The few lines that only the edges have are written again here: `follow_image` is
`ReplicaManager._lead_or_follow`, `propose` is `write_isr`, `serve` is the Fetch handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.isr_changes import IsrChange, Leader, isr_writes
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.fetcher import session as fetcher_session
from oncelog_server.fetcher.followed import Followed, Phase
from oncelog_server.fetcher.leader_fetcher import FetchSettings, LeaderFetcher
from oncelog_server.fetching.fetched_partition import FetchedPartition, PartitionKey
from oncelog_server.fetching.read import read_partitions
from oncelog_server.log.config import LogConfig
from oncelog_server.log.leader_epochs import LeaderEpochs
from oncelog_server.partition.follower_fetch import FetchingFollower
from oncelog_server.partition.follower_log import FollowerLog
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.isr_updates import IsrUpdates
from oncelog_server.partition.partition import Partition
from oncelog_server.replica.isr_changes import IsrOutcome, IsrProposal
from oncelog_server.replica.state import Follower, Replicas
from oncelog_server.slices import at_its_end
from oncelog_server.topic_partition import TopicPartition
from tests.exploration.replication.log_model import Batch, LogModel
from tests.exploration.replication.states import (
    UNKNOWN,
    BrokerState,
    Effects,
    FetcherState,
    FollowedState,
    FollowerState,
    PendingWrite,
    ProcessState,
    ReplicasState,
    Request,
    Response,
    Row,
)
from tests.exploration.replication.store_model import TOPIC, TOPIC_ID, partition_in

# A clock always shows NOW_MS. A time is either now, or longer ago than a follower may lag. The code
# asks nothing else about a time.
MAX_LAG_MS: Final = 10
NOW_MS: Final = 1_000
LONG_AGO_MS: Final = NOW_MS - MAX_LAG_MS - 1
NAME: Final = TopicPartition(TOPIC, 0)
KEY: Final = fetcher_session.PartitionKey(TOPIC_ID, 0)
_SETTINGS: Final = FetchSettings(500, 1, 1 << 20, 1 << 20, 1_000)


class Rules(NamedTuple):
    """The settings of a cluster."""

    min_isr: int = 2
    flush_on_ack: bool = False

    @property
    def elections(self) -> ElectionRules:
        return ElectionRules(self.min_isr)


class Broker:
    """A broker that is up, made of its state. `images` has the image of each store."""

    def __init__(
        self,
        broker_id: int,
        state: BrokerState,
        rules: Rules,
        images: Callable[[int], ClusterImage],
    ) -> None:
        process = state.process
        assert process is not None
        self.id = broker_id
        self._rules = rules
        self._images = images
        self._disk = state
        self._number, self._image_index = process.number, process.image
        self.image = images(process.image)
        self.writes: list[PendingWrite] = []
        self.acks: list[tuple[int, Batch]] = []
        config = LogConfig(min_insync_replicas=rules.min_isr)
        self.log = LogModel(
            state.batches, state.recovery_point, config, LeaderEpochs(process.epochs)
        )
        self.flushing, self.is_flush_due = process.flushing, process.is_flush_due
        self.partition = self._partition(process)
        self.updates = IsrUpdates(
            (self.partition,),
            self,
            epochs=lambda _: self._epochs(),
            monotonic_ms=_now_ms,
            max_lag_ms=MAX_LAG_MS,
        )
        if process.unknown != UNKNOWN:
            self.updates._unknown[self.partition] = process.unknown
        if process.refused != UNKNOWN:
            self.updates._refused[self.partition] = process.refused
        self._fetchers = {state.leader_id: self._fetcher(state) for state in process.fetchers}

    # --- the objects of a state

    def _partition(self, process: ProcessState) -> Partition:
        log: Any = self.log
        partition = Partition(
            NAME,
            TOPIC_ID,
            log,
            self._request_flush,
            flush_on_ack=self._rules.flush_on_ack,
            high_watermark=process.high_watermark,
        )
        partition.leader_id, partition.leader_epoch = process.leader_id, process.leader_epoch
        partition.is_leader = partition.leads = process.leads
        for end_offset, batch in process.waiting:
            settled = partial(self._settled, end_offset, batch)
            partition.commit_waiters.wait(end_offset, settled, needs_isr=True)
        _fill(partition.replicas, process.replicas)
        return partition

    def _fetcher(self, state: FetcherState) -> LeaderFetcher:
        fetcher = LeaderFetcher(
            self.id,
            self.broker_epoch,
            _SETTINGS,
            wall_ms=_now_ms,
            monotonic_ms=_now_ms,
            syncs=self._rules.flush_on_ack,
        )
        session = fetcher._session
        if state.followed is not None:
            leader_epoch, phase = state.followed
            followed = Followed(KEY, FollowerLog(self.partition), leader_epoch, phase)
            fetcher._followed[KEY] = followed
            if phase is Phase.DELAYED:
                fetcher._delayed[KEY] = followed
            if phase is Phase.SYNCING:
                fetcher._syncing[KEY] = followed
        if state.row is not None:
            session._rows[KEY] = _fetch_partition(state.row)
        if state.sent is not None:
            session._known[KEY] = _fetch_partition(state.sent)
        if state.is_changed:
            session._changed[KEY] = None
        return fetcher

    # --- the state of the objects

    def state(self) -> BrokerState:
        partition, log = self.partition, self.log
        waiting: Any = partition.commit_waiters.waiting
        fetchers = (_frozen_fetcher(id, found) for id, found in sorted(self._fetchers.items()))
        process = ProcessState(
            self._number,
            self._image_index,
            partition.leader_id,
            partition.leader_epoch,
            partition.is_leader,
            partition.high_watermark,
            tuple(log.leader_epochs),
            tuple(settled.args for _, settled, _ in waiting),
            _frozen_replicas(partition.replicas),
            self.updates._unknown.get(partition, UNKNOWN),
            self.updates._refused.get(partition, UNKNOWN),
            tuple(found for found in fetchers if found.followed is not None or found.sent),
            self.flushing,
            self.is_flush_due,
        )
        return self._disk._replace(
            batches=log.batches, recovery_point=log.recovery_point, process=process
        )

    # --- what the broker knows

    def broker_epoch(self) -> int:
        """Return the epoch of the registration (`Membership.epoch_in`)."""
        broker = self.image.brokers.get(self.id)
        if broker is None or broker.incarnation != f"{self.id}.{self._number}":
            return 0
        return broker.epoch

    def _epochs(self) -> Mapping[int, int]:
        image = self.image
        return {
            id: broker.epoch for id, broker in image.brokers.items() if id not in image.draining
        }

    # --- metadata

    def follow_image(self, index: int) -> None:
        old, new = self.image, self._images(index)
        self._image_index, self.image = index, new
        if partition_in(old) != partition_in(new):
            self._lead_or_follow()
        if old.brokers != new.brokers:
            at_its_end(self.updates.check())

    def started(self) -> None:
        """Follow the leader of the image, after the registration of a new process."""
        if partition_in(self.image).leader != self.id:
            self._lead_or_follow()

    def _lead_or_follow(self) -> None:
        partition, image = self.partition, partition_in(self.image)
        if image.leader != self.id:
            partition.become_follower(image.leader, image.leader_epoch)
            for leader_id, fetcher in self._fetchers.items():
                if leader_id != image.leader:
                    fetcher.forget(partition)
            if image.leader >= 0:
                if image.leader not in self._fetchers:
                    empty = FetcherState(image.leader, None, None, None, False)
                    self._fetchers[image.leader] = self._fetcher(empty)
                self._fetchers[image.leader].follow(FollowerLog(partition))
            return
        if image.joined(self.id) != self.broker_epoch():
            return
        for fetcher in self._fetchers.values():
            fetcher.forget(partition)
        partition.become_leader(
            self.id,
            image.leader_epoch,
            image.isr,
            image.replicas,
            image.partition_epoch,
            has_elr=bool(image.elr),
        )

    # --- the ISR

    def propose(self, proposal: IsrProposal, settled: Callable[[IsrOutcome], None], /) -> None:
        """Send the write of a proposal (`IsrChanges`, as `write_isr` does)."""
        change = IsrChange(
            proposal.topic_id,
            proposal.partition,
            proposal.leader_epoch,
            proposal.partition_epoch,
            proposal.isr,
            dict(proposal.joining),
        )
        leader = Leader(self.id, self.broker_epoch())
        batches = isr_writes(self.image, self._rules.elections, leader, [change]).batches
        if not batches:
            settled(IsrOutcome.REFUSED)
        for batch in batches:
            self.writes.append(PendingWrite(self.id, batch.write, proposal, is_awaited=True))

    def settle(self, proposal: IsrProposal, outcome: IsrOutcome) -> None:
        self.updates._settled(self.partition, proposal, outcome)

    def check(self) -> None:
        """Check the ISR, less than MAX_LAG_MS after everything that happened last."""
        at_its_end(self.updates.check())

    def check_late(self) -> None:
        """Check the ISR, more than MAX_LAG_MS after everything that happened."""
        for follower in self.partition.replicas._followers.values():
            if follower.last_fetch_ms != UNKNOWN:
                follower.last_fetch_ms = LONG_AGO_MS
            if follower.last_caught_up_ms != UNKNOWN:
                follower.last_caught_up_ms = LONG_AGO_MS
        self.check()

    # --- records

    def append(self, value: int) -> None:
        """Append a batch. It is acknowledged at its commit (acks=all). Below the min ISR, it is the
        batch of a producer with acks=1."""
        records: Any = value
        end_offset = self.partition.append(records, NOW_MS).last_offset + 1
        if not self.partition.replicas.is_under_min_isr:
            settled = partial(self._settled, end_offset, self.log.batches[-1])
            self.partition.when_committed(end_offset, settled, needs_isr=True)

    def _settled(self, end_offset: int, batch: Batch, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            self.acks.append((end_offset, batch))

    def _request_flush(self, partition: Partition) -> None:
        if self.flushing == UNKNOWN:
            self.flushing = partition.log_end_offset
        else:
            self.is_flush_due = True

    def end_flush(self) -> None:
        """End the flush in flight, and begin the next one if records came meanwhile."""
        flushed, self.flushing = self.flushing, UNKNOWN
        self.log.recovery_point = max(self.log.recovery_point, min(flushed, self.log.end_offset))
        if self.is_flush_due:
            self.flushing, self.is_flush_due = self.log.end_offset, False
        self.partition.on_flushed(flushed)

    # --- fetches

    def ask(self, leader_id: int) -> Request | None:
        """Return the next request to a leader, or None if no request is due."""
        fetcher = self._fetchers[leader_id]
        for followed in fetcher._delayed.values():
            followed.due_ms = NOW_MS  # the back-off is over
        request = fetcher.next()
        if isinstance(request, FetchRequest):
            assert request.replica_state is not None
            row = request.topics[0].partitions[0]
            epoch = request.replica_state.replica_epoch
            return Request(self.id, leader_id, epoch, _row(row))
        # A leader's log has every epoch of its followers, so no fetch is out of range.
        assert request is None
        return None

    def serve(self, request: Request) -> Response:
        """Return the leader's response (`handlers/fetch.py`)."""
        alive = self.image.brokers.get(request.follower)
        follower = FetchingFollower(
            request.follower,
            request.broker_epoch,
            -1 if alive is None else alive.epoch,
            NOW_MS,
            joins=self.updates.fetched,
        )
        row = request.row
        wanted = FetchedPartition(
            PartitionKey(*KEY), row.fetch_offset, 1 << 20, row.leader_epoch, row.last_fetched_epoch
        )
        found = at_its_end(
            read_partitions([wanted], self._find, Isolation.READ_UNCOMMITTED, 1 << 20, follower)
        ).partitions[0]
        read: Any = found.read
        if read is None:
            return Response(request, found.code)
        return Response(request, found.code, read.high_watermark, read.records, found.diverging)

    def _find(self, _: PartitionKey) -> Partition:
        return self.partition

    def take(self, leader_id: int, response: Response | None) -> None:
        """Take the response of a leader, or None for a lost connection. Make the cuts of the log
        that follow from it."""
        fetcher = self._fetchers[leader_id]
        if response is None:
            fetcher.lost()
        else:
            at_its_end(fetcher.take(FetchRequest(), _decoded(response)))
        if fetcher.has_cuts:
            fetcher.prepare_cuts()
            at_its_end(fetcher.make_cuts())
        fetcher.notices.clear()

    def end_sync(self, leader_id: int) -> None:
        """End a follower's sync of its log (`links/fetcher.py`)."""
        self.log.synced()
        self._fetchers[leader_id].synced()

    def effects(self, message: Request | Response | None, wrong: tuple[str, ...] = ()) -> Effects:
        return Effects(tuple(self.writes), message, wrong)


def _now_ms() -> int:
    return NOW_MS


def _fill(replicas: Replicas, state: ReplicasState) -> None:
    replicas.isr, replicas.assignment = state.isr, state.assignment
    replicas._leader_id, replicas.epoch_start_offset = state.leader_id, state.epoch_start_offset
    replicas.partition_epoch, replicas._has_elr = state.partition_epoch, state.has_elr
    replicas._proposed_isr, replicas._joining = state.proposed_isr, state.joining
    for found in state.followers:
        follower = replicas._followers[found.broker_id] = Follower()
        follower.broker_epoch, follower.log_end_offset = found.broker_epoch, found.log_end_offset
        follower.last_fetch_ms = found.last_fetch_ms
        follower.leader_end_at_last_fetch = found.leader_end_at_last_fetch
        follower.last_caught_up_ms = found.last_caught_up_ms
    replicas._count()


def _frozen_replicas(replicas: Replicas) -> ReplicasState:
    followers = tuple(
        FollowerState(
            id,
            found.broker_epoch,
            found.log_end_offset,
            found.last_fetch_ms,
            found.leader_end_at_last_fetch,
            found.last_caught_up_ms,
        )
        for id, found in replicas._followers.items()
    )
    return ReplicasState(
        replicas.isr,
        replicas.assignment,
        replicas._leader_id,
        replicas.epoch_start_offset,
        replicas.partition_epoch,
        replicas._proposed_isr,
        replicas._joining,
        replicas._has_elr,
        followers,
    )


def _frozen_fetcher(leader_id: int, fetcher: LeaderFetcher) -> FetcherState:
    session, followed = fetcher._session, fetcher._followed.get(KEY)
    row, sent = session._rows.get(KEY), session._known.get(KEY)
    return FetcherState(
        leader_id,
        None if followed is None else FollowedState(followed.leader_epoch, followed.phase),
        None if row is None else _row(row),
        None if sent is None else _row(sent),
        KEY in session._changed,
    )


def _row(row: FetchPartition) -> Row:
    return Row(row.current_leader_epoch, row.fetch_offset, row.last_fetched_epoch)


def _fetch_partition(row: Row) -> FetchPartition:
    return FetchPartition(0, row.leader_epoch, row.fetch_offset, row.last_fetched_epoch, 0, 1 << 20)


def _decoded(response: Response) -> FetchResponse:
    """Return the response as a message. Its records are the batches of a model."""
    records: Any = response.read
    data = PartitionData(0, response.code, response.high_watermark, log_start_offset=0)
    data.records = records
    if response.diverging is not None:
        data.diverging_epoch = EpochEndOffset(*response.diverging)
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
    return FetchResponse(responses=[topic])

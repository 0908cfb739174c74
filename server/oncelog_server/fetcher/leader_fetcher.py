"""All partitions that a follower fetches from one leader: the next request, and what each response
changes. One request is in flight at a time. Nothing here does IO, except the logs behind `Files`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from oncelog_protocol.records.errors import CorruptRecords
from oncelog_server.fetcher.bounds import cut_into
from oncelog_server.fetcher.errors import PASSING, SESSION_ERRORS, Reaction, reaction
from oncelog_server.fetcher.followed import UNKNOWN, Followed, Phase
from oncelog_server.fetcher.session import FollowerSession, PartitionKey
from oncelog_server.log.errors import CorruptLog, UnexpectedBatch
from oncelog_server.log.replay import ProducersAt
from oncelog_server.partition.follower_log import Cut, FollowerLog
from oncelog_server.partition.partition import Partition
from oncelog_server.quotas.replication import ReplicationQuota
from oncelog_server.replica.traffic import ReplicationTraffic
from oncelog_server.slices import Steps, without_waits
from oncelog_server.storage.files import StorageError
from oncelog_server.topic_partition import TopicPartition

# Maximum number of partitions that one request adds to a session. Several requests add a larger
# number, so that no request blocks the loop of the leader.
MOST_ROWS: Final = 5_000
# The longest time between two checks of the throttle.
MOST_HELD_MS: Final = 1_000
# The delay after the first error. Kafka waits replica.fetch.backoff.ms (1 s) already after the
# first error, and delays acks=all as long.
FIRST_DELAY_MS: Final = 20
MOST_DOUBLINGS: Final = 10
_LATEST: Final = -1
_EARLIEST: Final = -2
# The longest time for which a leader may look up offsets.
_OFFSETS_TIMEOUT_MS: Final = 30_000

FetcherRequest: TypeAlias = FetchRequest | ListOffsetsRequest


class FetchSettings(msgspec.Struct, frozen=True):
    """The settings `replica.fetch.*` of a broker."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    backoff_ms: int


class Notice(NamedTuple):
    """Something for the broker's log. `partition` is None for all partitions of the leader."""

    event: str
    partition: TopicPartition | None
    reason: str


class LeaderFetcher:
    """The caller sends the request that `next` returns, and gives the response to `take`.
    `broker_epoch` returns the epoch of this broker's registration, 0 without one. `throttle` limits
    what is fetched. `notices` has what must be logged; the caller empties it.

    A fetch acknowledges all records before its offset. With `syncs`, these records must be on disk
    (oncelog.flush.on.ack): a partition with other records is in `unsynced`, and no request names it
    until the caller has synced its log and called `synced`.
    """

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        settings: FetchSettings,
        *,
        wall_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
        throttle: ReplicationQuota | None = None,
        traffic: ReplicationTraffic | None = None,
        syncs: bool = False,
    ) -> None:
        self._throttle = throttle
        self._syncs = syncs
        self._traffic = traffic or ReplicationTraffic(broker_id)
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._settings = settings
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms
        self._session = FollowerSession()
        self._followed: dict[PartitionKey, Followed] = {}
        self._delayed: dict[PartitionKey, Followed] = {}
        self._asking: dict[PartitionKey, Followed] = {}
        self._cutting: dict[PartitionKey, Followed] = {}
        self._syncing: dict[PartitionKey, Followed] = {}
        # The time of the next request after a lost connection.
        self._pause_ends_ms = 0
        self.notices: list[Notice] = []

    def __len__(self) -> int:
        return len(self._followed)

    # --- partitions

    def follow(self, log: FollowerLog) -> None:
        """Fetch a partition from this leader in the partition's leader epoch. Nothing changes if it
        is fetched in this epoch already."""
        partition = log.partition
        key = key_of(partition)
        known = self._followed.get(key)
        if (
            known is not None
            and known.log.partition is partition
            and known.leader_epoch == partition.leader_epoch
        ):
            return
        self.forget(partition)
        followed = self._followed[key] = Followed(key, log, partition.leader_epoch)
        self._want(followed)

    def forget(self, partition: Partition) -> None:
        """Stop fetching a partition."""
        followed = self._followed.pop(key_of(partition), None)
        if followed is not None:
            self._leave_phase(followed)

    def partitions(self) -> list[Partition]:
        return [followed.log.partition for followed in self._followed.values()]

    @property
    def max_lag(self) -> int:
        """Return the largest known lag of a partition (see Followed)."""
        return max((followed.lag for followed in self._followed.values()), default=UNKNOWN)

    def lag_of(self, partition: Partition) -> int:
        """Return the lag of a partition (see Followed), UNKNOWN also for a partition that is not
        fetched."""
        followed = self._followed.get(key_of(partition))
        return UNKNOWN if followed is None else followed.lag

    def _is_current(self, followed: Followed) -> bool:
        """Return False if the partition is not followed any more, or is followed in another leader
        epoch. This can change between two steps: the broker may lead the partition by now."""
        return self._followed.get(followed.key) is followed

    def _want(self, followed: Followed) -> None:
        """Fetch a partition from the end of its log, which may have to be synced first. Its records
        may come from an earlier leader, or from the time when this broker led it."""
        partition = followed.log.partition
        if self._syncs and partition.recovery_point < partition.log_end_offset:
            self._leave_phase(followed)
            followed.phase = Phase.SYNCING
            self._syncing[followed.key] = followed
            return
        followed.phase = Phase.FETCHING
        self._session.want(followed.key, followed.row(self._settings.partition_max_bytes))

    def _leave_phase(self, followed: Followed) -> None:
        key = followed.key
        self._session.drop(key)
        self._delayed.pop(key, None)
        self._asking.pop(key, None)
        self._cutting.pop(key, None)
        self._syncing.pop(key, None)

    def _delay(self, followed: Followed, delay_ms: int | None = None) -> None:
        """Fetch a partition again after `delay_ms`. If `delay_ms` is None, wait for the back-off.
        A partition that the last error has taken offline is not followed any more."""
        if not self._is_current(followed):
            return
        self._leave_phase(followed)
        followed.phase = Phase.DELAYED
        if delay_ms is None:
            delay_ms = self._settings.backoff_ms
        followed.due_ms = self._monotonic_ms() + delay_ms
        self._delayed[followed.key] = followed

    def _delay_briefly(self, followed: Followed) -> None:
        """Fetch the partition again soon, because the leader may see its election some ms later
        than this follower. After each further error the delay doubles, at most to the back-off."""
        brief_ms = FIRST_DELAY_MS << min(followed.passing_errors, MOST_DOUBLINGS)
        followed.passing_errors += 1
        self._delay(followed, min(brief_ms, self._settings.backoff_ms))

    def _stop(self, followed: Followed) -> None:
        self._leave_phase(followed)
        followed.phase = Phase.STOPPED

    def _ask_offsets(self, followed: Followed) -> None:
        self._leave_phase(followed)
        followed.phase, followed.leader_start = Phase.ASKING, UNKNOWN
        self._asking[followed.key] = followed

    def _cut_at(self, followed: Followed, cut: Cut) -> None:
        self._leave_phase(followed)
        followed.phase, followed.cut = Phase.CUTTING, cut
        self._cutting[followed.key] = followed
        try:
            followed.log.find_cut(cut)
        except (StorageError, CorruptLog) as error:
            self._cut_failed(followed, error)

    def _notice(self, event: str, followed: Followed, reason: object) -> None:
        name = followed.log.partition.topic_partition
        self.notices.append(Notice(event, name, str(reason)))

    # --- requests

    def next(self) -> FetcherRequest | None:
        """Return the next request, None if there is nothing to ask until `wake_ms`, or if logs must
        be synced first."""
        now_ms = self._monotonic_ms()
        if self._broker_epoch() <= 0:
            # The leader would count a fetch without an epoch for the ISR, even if this broker has
            # lost records before its restart (KIP-903).
            self._pause()
        if now_ms < self._pause_ends_ms:
            return None
        for followed in self._due(now_ms):
            self._leave_phase(followed)
            self._want(followed)
        if self._throttle is not None and self._throttle.is_active:
            self._hold_back(self._throttle, now_ms)
        if self._syncing:
            return None
        if self._asking:
            return self._offsets_request()
        return self._fetch_request() if self._session else None

    def _due(self, now_ms: int) -> list[Followed]:
        return [followed for followed in self._delayed.values() if followed.due_ms <= now_ms]

    def _hold_back(self, throttle: ReplicationQuota, now_ms: int) -> None:
        """Delay the throttled partitions that are not in sync while their rate is exceeded (KIP-73;
        Kafka's shouldFollowerThrottle). The delay is short, because the rate may change."""
        delay_ms = min(throttle.delay_ms(), MOST_HELD_MS)
        if not delay_ms:
            return
        for followed in self._followed.values():
            name = followed.log.partition.topic_partition
            if followed.phase is Phase.FETCHING and followed.lag and throttle.concerns(name):
                self._delay(followed, delay_ms)

    def wake_ms(self) -> int | None:
        """Return the time of the monotonic clock at which `next` may have a request again, None if
        only new metadata, a cut or a sync leads to a request."""
        now_ms = self._monotonic_ms()
        if now_ms < self._pause_ends_ms:
            return self._pause_ends_ms
        return min((followed.due_ms for followed in self._delayed.values()), default=None)

    def _fetch_request(self) -> FetchRequest:
        settings = self._settings
        part = self._session.next(MOST_ROWS)
        return FetchRequest(
            replica_state=ReplicaState(self._broker_id, self._broker_epoch()),
            max_wait_ms=settings.max_wait_ms if part.is_complete else 0,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            session_id=part.session_id,
            session_epoch=part.session_epoch,
            topics=_topics(part.rows),
            forgotten_topics_data=_forgotten(part.forgotten),
        )

    def _offsets_request(self) -> ListOffsetsRequest:
        """Return a request for the start of the leader's logs, and once all starts are known, for
        their ends."""
        asking = [
            followed for followed in self._asking.values() if followed.leader_start == UNKNOWN
        ]
        timestamp = _EARLIEST
        if not asking:
            asking, timestamp = list(self._asking.values()), _LATEST
        topics: dict[str, ListOffsetsTopic] = {}
        for followed in asking[:MOST_ROWS]:
            topic, index = followed.log.partition.topic_partition
            row = ListOffsetsPartition(index, followed.leader_epoch, timestamp)
            topics.setdefault(topic, ListOffsetsTopic(topic)).partitions.append(row)
        return ListOffsetsRequest(
            replica_id=self._broker_id,
            topics=list(topics.values()),
            timeout_ms=_OFFSETS_TIMEOUT_MS,
        )

    # --- responses

    def take(
        self, request: FetcherRequest, response: FetchResponse | ListOffsetsResponse | None
    ) -> Steps[None]:
        """Make the changes of a response. None: the connection is lost, and the leader may or may
        not have got the request."""
        if isinstance(response, FetchResponse):
            yield from self._take_fetched(response)
        elif isinstance(response, ListOffsetsResponse) and isinstance(request, ListOffsetsRequest):
            yield from self._take_offsets(request, response)
        else:
            self.lost()

    def lost(self) -> None:
        """Begin a new session after the back-off, because the state of the leader's session is
        unknown."""
        self._session.reset()
        self._pause()

    def _pause(self) -> None:
        self._pause_ends_ms = self._monotonic_ms() + self._settings.backoff_ms

    def _take_fetched(self, response: FetchResponse) -> Steps[None]:
        if response.error_code in SESSION_ERRORS:
            self._session.reset()
            return
        if response.error_code:
            self.notices.append(Notice("leader refuses Fetch", None, _name(response.error_code)))
            self.lost()
            return
        for topic in response.responses:
            for data in topic.partitions:
                key = PartitionKey(topic.topic_id, data.partition_index)
                followed = self._followed.get(key)
                if followed is not None and followed.is_answered_by(self._session.sent(key)):
                    self._take_partition(followed, data)
                yield
        self._session.answered(response.session_id)

    def _take_partition(self, followed: Followed, data: PartitionData) -> None:
        if data.error_code:
            self._take_error(followed, data.error_code)
            return
        followed.passing_errors = 0
        followed.high_watermark = data.high_watermark
        followed.log_start_offset = data.log_start_offset
        if data.diverging_epoch is not None and data.diverging_epoch.epoch >= 0:
            diverging = data.diverging_epoch
            offset = followed.log.diverged_at(diverging.epoch, diverging.end_offset)
            self._cut_at(followed, Cut(offset))
        else:
            self._append(followed, data)

    def _take_error(self, followed: Followed, code: int) -> None:
        if code not in PASSING:
            self._notice("leader refuses partition", followed, _name(code))
        match reaction(code):
            case Reaction.ASK_OFFSETS:
                self._ask_offsets(followed)
            case Reaction.AWAIT_LEADER:
                self._stop(followed)
            case Reaction.DELAY if code in PASSING:
                self._delay_briefly(followed)
            case Reaction.DELAY:
                self._delay(followed)

    def _append(self, followed: Followed, data: PartitionData) -> None:
        log, records = followed.log, data.records
        start = log.partition.log_start_offset
        try:
            size = 0
            if records:
                restart = log.needs_restart(records)
                if restart is not None:
                    self._cut_at(followed, restart)
                    return
                size = log.append(records, self._wall_ms())
            followed.follow_leader(self._wall_ms())
        except (CorruptRecords, UnexpectedBatch) as error:
            # The batch may have changed on its way, or on the leader's disk. The next fetch shows
            # which.
            self._notice("leader sends a wrong batch", followed, error)
            self._delay(followed)
            return
        except StorageError as error:
            log.partition.on_storage_error(log.partition, error)
            self._delay(followed)
            return
        if size:
            self._traffic.fetched(log.partition.topic_partition, size)
            if self._throttle is not None and self._throttle.concerns(
                log.partition.topic_partition
            ):
                self._throttle.record(size)
        # The leader waits for a new log start too, after DeleteRecords.
        if size or log.partition.log_start_offset != start:
            self._want(followed)

    def _take_offsets(
        self, request: ListOffsetsRequest, response: ListOffsetsResponse
    ) -> Steps[None]:
        is_start = any(row.timestamp == _EARLIEST for row in _rows(request))
        found = {
            TopicPartition(topic.name, row.partition_index): row
            for topic in response.topics
            for row in topic.partitions
        }
        for followed in list(self._asking.values()):
            row = found.get(followed.log.partition.topic_partition)
            if row is not None and self._asking.get(followed.key) is followed:
                self._take_offset(followed, row, is_start=is_start)
            yield

    def _take_offset(
        self, followed: Followed, row: ListOffsetsPartitionResponse, *, is_start: bool
    ) -> None:
        if row.error_code:
            self._take_error(followed, row.error_code)
        elif is_start:
            followed.leader_start = row.offset
        elif followed.leader_start != UNKNOWN:
            log = followed.log
            cut = cut_into(followed.leader_start, row.offset, log.end_offset)
            if cut is None:
                # The leader's log has grown meanwhile.
                self._delay(followed)
                return
            self._notice(
                "log of a follower cut",
                followed,
                f"the leader's log is {followed.leader_start}..{row.offset}, this log ends at"
                f" {log.end_offset}",
            )
            self._cut_at(followed, cut)

    # --- syncs

    def unsynced(self) -> list[Partition]:
        """Return the partitions with logs that must be synced before they are fetched."""
        return [followed.log.partition for followed in self._syncing.values()]

    def synced(self) -> None:
        """Fetch the partitions with records that are on disk by now."""
        for followed in list(self._syncing.values()):
            self._leave_phase(followed)
            self._want(followed)

    # --- cuts

    @property
    def has_cuts(self) -> bool:
        return bool(self._cutting)

    def prepare_cuts(self) -> bool:
        """Lower the recovery points of the logs that will be cut. Return True if they must be on
        disk before `make_cuts`. No log is read, because `_cut_at` has found the places."""
        must_wait = False
        for followed in list(self._cutting.values()):
            assert followed.cut is not None
            try:
                must_wait = followed.log.lower_recovery_point(followed.cut) or must_wait
            except (StorageError, CorruptLog) as error:
                self._cut_failed(followed, error)
        return must_wait

    def make_cuts(self) -> Steps[None]:
        """Cut the logs, and fetch from their new ends. The producers of a log are computed in steps
        before its cut."""
        for followed in list(self._cutting.values()):
            before = yield from self._producers_before(followed)
            if self._cutting.get(followed.key) is not followed:
                continue
            self._make_cut(followed, before)
            yield

    def _producers_before(self, followed: Followed) -> Steps[ProducersAt | None]:
        cut = followed.cut
        assert cut is not None
        if followed.key not in self._cutting:
            return None
        try:
            steps = followed.log.producers_before(cut, self._wall_ms())
            return (yield from without_waits(steps))
        except (StorageError, CorruptLog) as error:
            if self._is_current(followed):
                self._cut_failed(followed, error)
            return None

    def _make_cut(self, followed: Followed, before: ProducersAt | None) -> None:
        cut = followed.cut
        assert cut is not None
        if cut.offset < followed.log.partition.high_watermark:
            self._notice(
                "committed records dropped",
                followed,
                f"cut at {cut.offset}, high watermark {followed.log.partition.high_watermark}",
            )
        try:
            followed.log.cut(cut, self._wall_ms(), before)
            followed.follow_leader(self._wall_ms())
        except (StorageError, CorruptLog, CorruptRecords, UnexpectedBatch) as error:
            self._cut_failed(followed, error)
        else:
            self._leave_phase(followed)
            self._want(followed)

    def delay_cuts(self) -> None:
        """Fetch these partitions again later, because the checkpoint could not be written."""
        for followed in list(self._cutting.values()):
            self._delay(followed)

    def _cut_failed(self, followed: Followed, error: Exception) -> None:
        self._notice("log of a follower could not be cut", followed, error)
        self._delay(followed)


def key_of(partition: Partition) -> PartitionKey:
    return PartitionKey(partition.topic_id, partition.topic_partition.partition)


def _topics(rows: Sequence[tuple[PartitionKey, FetchPartition]]) -> list[FetchTopic]:
    topics: dict[bytes, FetchTopic] = {}
    for key, row in rows:
        topic = topics.get(key.topic_id)
        if topic is None:
            topic = topics[key.topic_id] = FetchTopic(topic_id=key.topic_id)
        topic.partitions.append(row)
    return list(topics.values())


def _forgotten(keys: Iterable[PartitionKey]) -> list[ForgottenTopic]:
    topics: dict[bytes, ForgottenTopic] = {}
    for key in keys:
        topic = topics.get(key.topic_id)
        if topic is None:
            topic = topics[key.topic_id] = ForgottenTopic(topic_id=key.topic_id)
        topic.partitions.append(key.partition)
    return list(topics.values())


def _rows(request: ListOffsetsRequest) -> Iterable[ListOffsetsPartition]:
    return (row for topic in request.topics for row in topic.partitions)


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)

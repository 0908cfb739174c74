"""The topics of a source and the offsets of their logs, as the cluster reports them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

from oncelog_client.core.client_config import AdminConfig, AdminSettings, admin_config
from oncelog_client.errors import RetriableError, check
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.io.cluster import Cluster
from oncelog_client.io.group_offsets import commit_offsets
from oncelog_client.io.log_offsets import EARLIEST, LATEST, list_offsets
from oncelog_client.spark.settings.client_settings import ClientSetup
from oncelog_client.spark.sink.protocol.state_topic import STATE_TOPIC
from oncelog_client.spark.source.plan.subscriptions import SourceSubscription
from oncelog_client.values import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from oncelog_client.spark.sink.protocol.state import SinkState

T = TypeVar("T")

# Spark requests the latest offsets every 10 ms while there are no new records. New topics and
# partitions are looked up less often.
METADATA_AGE_MS: Final = 1_000
# The time limit of one ListOffsets lookup. At the limit the metadata are refreshed: they show if a
# topic was deleted meanwhile.
_ATTEMPT_MS: Final = 5_000
_NOT_THERE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class CatalogueKey(NamedTuple):
    """The arguments of a catalogue, and its key in the cache of connected clients."""

    setup: ClientSetup
    subscription: SourceSubscription
    retries: int
    retry_interval_ms: int

    @property
    def timeout_s(self) -> float:
        """A timeout longer than those of `start` and of every method of the catalogue. So the
        method fails first, with an error that has the cause."""
        config = _admin_config(self.setup)
        start_ms = 2 * config.request_timeout_ms
        attempt_ms = config.default_api_timeout_ms + self.retry_interval_ms
        return 10 + (start_ms + self.retries * attempt_ms) / 1_000


class Catalogue:
    """The partitions of one subscription. A method makes up to `retries` attempts, each of
    `default_api_timeout_ms`, and then raises RetriableError. Any other KafkaError is raised at
    once."""

    def __init__(self, key: CatalogueKey) -> None:
        self._key = key
        config = _admin_config(key.setup)
        self._timeout_ms = config.default_api_timeout_ms
        self._cluster = Cluster(config, auto_create=False)
        self._looked_ms: float | None = None

    async def start(self) -> None:
        """Connect. Raises RetriableError if no bootstrap server can be reached."""
        self._cluster.all_topics = bool(self._key.subscription.pattern)
        self._cluster.watch(self._key.subscription.named)
        await self._cluster.start()

    async def partitions(self, *, max_age_ms: float = 0) -> frozenset[TopicPartition]:
        """Return the partitions that exist. The metadata are at most `max_age_ms` old."""

        async def attempt() -> frozenset[TopicPartition]:
            return await self._partitions(max_age_ms)

        return await self._patiently(attempt)

    async def ends(
        self, *, read_committed: bool, max_age_ms: float = 0
    ) -> dict[TopicPartition, int]:
        """Return the last stable offset of each partition, or without `read_committed` its high
        watermark."""

        async def attempt() -> dict[TopicPartition, int]:
            partitions = await self._partitions(max_age_ms)
            return await self._offsets(dict.fromkeys(partitions, LATEST), read_committed)

        return await self._patiently(attempt)

    async def firsts(self, partitions: frozenset[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offsets of the partitions that exist."""

        async def attempt() -> dict[TopicPartition, int]:
            there = partitions & await self._partitions(METADATA_AGE_MS)
            return await self._offsets(dict.fromkeys(there, EARLIEST), False)

        return await self._patiently(attempt)

    async def high_watermarks(
        self, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the high watermarks of the partitions that exist."""

        async def attempt() -> dict[TopicPartition, int]:
            there = partitions & await self._partitions(METADATA_AGE_MS)
            return await self._offsets(dict.fromkeys(there, LATEST), False)

        return await self._patiently(attempt)

    async def at_times(
        self, times_ms: Mapping[TopicPartition, int], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        """Return the offset of each partition's first record at or after its time in `times_ms`.
        Partitions without such a record are left out."""

        async def attempt() -> dict[TopicPartition, int]:
            return await self._offsets(times_ms, read_committed)

        return await self._patiently(attempt)

    def topic_ids(self) -> dict[str, bytes]:
        """Return the topic ids of the last look-up. An id is all zero if the broker reports
        none."""
        return {name: info.topic_id for name, info in self._cluster.metadata.topics.items()}

    async def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group without members, in one attempt of
        `default_api_timeout_ms`."""
        rows = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
        group = ConsumerGroupMetadata(group_id)
        await commit_offsets(self._cluster, group, rows, self._timeout_ms)

    async def sink_state(self, sink_id: str) -> SinkState | None:
        """Return the state of a sink in the same cluster, or None if the sink has no state. Raises
        StateUnreadable or NoSourceEnd."""

        # Imported here: few queries need it, and each query starts several processes.
        from .sink_states import sink_state

        async def attempt() -> SinkState | None:
            return await sink_state(self._cluster, sink_id, self._timeout_ms)

        return await self._patiently(attempt)

    # -- one attempt each

    async def _partitions(self, max_age_ms: float) -> frozenset[TopicPartition]:
        now_ms = monotonic_ms()
        if self._looked_ms is None or now_ms - self._looked_ms >= max_age_ms:
            await self._cluster.refresh()
            self._looked_ms = now_ms
        return self._key.subscription.chosen(self._counts())

    def _counts(self) -> dict[str, int]:
        subscription = self._key.subscription
        counts: dict[str, int] = {}
        for name, info in self._cluster.metadata.topics.items():
            if not subscription.wants(name) or info.error in _NOT_THERE:
                continue
            if subscription.pattern and (info.is_internal or name == STATE_TOPIC):
                continue
            check(info.error, name)
            counts[name] = len(info.partitions)
        return counts

    async def _offsets(
        self, specs: Mapping[TopicPartition, int], read_committed: bool
    ) -> dict[TopicPartition, int]:
        if not specs:
            return {}
        timeout_ms = min(_ATTEMPT_MS, self._timeout_ms)
        try:
            found = await list_offsets(
                self._cluster, specs, timeout_ms, read_committed=read_committed
            )
        except RetriableError:
            self._looked_ms = None
            raise
        return {partition: row.offset for partition, row in found.items()}

    async def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        for _ in range(self._key.retries - 1):
            try:
                return await self._cluster.retry(attempt, self._timeout_ms)
            except RetriableError:
                await asyncio.sleep(self._key.retry_interval_ms / 1_000)
        return await self._cluster.retry(attempt, self._timeout_ms)


def _admin_config(setup: ClientSetup) -> AdminConfig:
    return admin_config(setup.bootstrap_servers, cast(AdminSettings, setup.keywords))

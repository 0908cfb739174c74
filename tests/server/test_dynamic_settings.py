"""Dynamic settings of brokers change a running broker, and are in force again after a restart
(KIP-226)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.broker import Broker
from oncelog_server.cleaning.cleaner import LogCleaner
from oncelog_server.cluster import records
from oncelog_server.cluster.records import ConfigRecord
from oncelog_server.cluster.store import Put
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.config import load_settings
from oncelog_server.dynamic_settings import follow_settings
from oncelog_server.environment import OsEnvironment
from oncelog_server.refusal import Refused
from oncelog_server.settings.description import ConfigSource, describe_broker, describe_defaults
from oncelog_server.settings.dynamic import DYNAMIC, THROTTLES, in_force
from oncelog_server.settings.model import Settings
from oncelog_server.settings.thread_counts import THREAD_COUNTS
from oncelog_server.topic_partition import TopicPartition
from tests.server.log.driver import batch
from tests.server.metadata.brokers import until

ALL_BROKERS = ""


@asynccontextmanager
async def started(path: Path, *assignments: str) -> AsyncIterator[Broker]:
    settings = load_settings(
        assignments=[f"log.dirs={path}", "listeners=PLAINTEXT://127.0.0.1:0", *assignments]
    ).settings
    broker = Broker(settings, OsEnvironment(str(path)))
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


async def alter(broker: Broker, name: str, **own: str) -> None:
    texts = {key.replace("_", "."): text for key, text in own.items()}
    await alter_to(broker, name, texts)


async def alter_to(broker: Broker, name: str, texts: Mapping[str, str]) -> None:
    await broker.metadata.alter_broker_settings(name, lambda before: texts)


class Effect(NamedTuple):
    """A value of a setting that is not the default, and what the broker then uses."""

    text: str
    used: Any
    use: Callable[[Broker], Any]


def of_topic(text: str, used: Any, attribute: str) -> Effect:
    return Effect(text, used, lambda broker: getattr(config_of(broker), attribute))


def of_cleaner(text: str, used: Any, attribute: str) -> Effect:
    return Effect(text, used, lambda broker: getattr(cleaner_of(broker).limits, attribute))


def of_listener(text: str, used: Any, attribute: str) -> Effect:
    return Effect(text, used, lambda broker: getattr(broker._listener._limits, attribute))


def cleaner_of(broker: Broker) -> LogCleaner:
    """Return the cleaner, which has been running since the first call."""
    if broker._late_cleaner.cleaner is None:
        broker._late_cleaner._load()
    assert broker._late_cleaner.cleaner is not None
    return broker._late_cleaner.cleaner


def config_of(broker: Broker, topic: str = "t") -> Any:
    partition = broker.partitions.get(TopicPartition(topic, 0))
    assert partition is not None
    return partition.config


def forgotten(broker: Broker) -> tuple[int, int]:
    """Append a batch of one producer with a time one second in the past, then remove expired
    producers. Return the number of producers that remain, and the step in ms by which the window of
    the producer-id quota moves."""
    partition = broker.partitions.get(TopicPartition("t", 0))
    assert partition is not None
    if not len(partition._log.producers):
        producer_id = broker.services.producer_ids.take()
        written = batch(producer_id=producer_id, producer_epoch=0, base_sequence=0)
        partition.append(written, now_ms=broker.services.clock.now_ms() - 1_000)
    broker._background_tasks._expire_producers()
    return len(partition._log.producers), broker.services.producer_id_quota._step_ms


EFFECTS: dict[str, Effect] = {
    "compression.gzip.level": of_topic("7", 7, "compression_gzip_level"),
    "compression.lz4.level": of_topic("7", 7, "compression_lz4_level"),
    "compression.type": of_topic("zstd", "zstd", "compression_type"),
    "compression.zstd.level": of_topic("7", 7, "compression_zstd_level"),
    "log.cleaner.backoff.ms": Effect("7", 7, lambda broker: broker.settings.log_cleaner_backoff_ms),
    "log.cleaner.dedupe.buffer.size": of_cleaner("7000000", 7_000_000, "dedupe_buffer_bytes"),
    "log.cleaner.delete.retention.ms": of_topic("7", 7, "delete_retention_ms"),
    "log.cleaner.io.buffer.load.factor": of_cleaner("0.5", 0.5, "load_factor"),
    "log.cleaner.io.buffer.size": of_cleaner("700000", 700_000, "io_buffer_bytes"),
    "log.cleaner.io.max.bytes.per.second": of_cleaner("7.0", 7.0, "max_bytes_per_second"),
    "log.cleaner.max.compaction.lag.ms": of_topic("7", 7, "max_compaction_lag_ms"),
    "log.cleaner.min.cleanable.ratio": of_topic("0.25", 0.25, "min_cleanable_dirty_ratio"),
    "log.cleaner.min.compaction.lag.ms": of_topic("7", 7, "min_compaction_lag_ms"),
    "log.cleanup.policy": of_topic("compact", {"compact"}, "cleanup_policy"),
    "log.flush.interval.messages": of_topic("7", 7, "flush_messages"),
    "log.flush.interval.ms": of_topic("7", 7, "flush_ms"),
    "log.index.interval.bytes": of_topic("7", 7, "index_interval_bytes"),
    "log.index.size.max.bytes": of_topic("700", 700, "segment_index_bytes"),
    "log.message.timestamp.after.max.ms": of_topic("7", 7, "message_timestamp_after_max_ms"),
    "log.message.timestamp.before.max.ms": of_topic("7", 7, "message_timestamp_before_max_ms"),
    "log.message.timestamp.type": of_topic(
        "LogAppendTime", "LogAppendTime", "message_timestamp_type"
    ),
    "log.preallocate": of_topic("true", True, "preallocate"),
    "log.retention.bytes": of_topic("7", 7, "retention_bytes"),
    "log.retention.ms": of_topic("7", 7, "retention_ms"),
    "log.roll.jitter.ms": of_topic("7", 7, "segment_jitter_ms"),
    "log.roll.ms": of_topic("7", 7, "segment_ms"),
    "log.segment.bytes": of_topic("7000000", 7_000_000, "segment_bytes"),
    "log.segment.delete.delay.ms": of_topic("7", 7, "file_delete_delay_ms"),
    "max.connection.creation.rate": Effect(
        "7",
        7,
        lambda broker: broker._listener._rates._of_broker.limit,  # type: ignore[union-attr]
    ),
    "max.connections": of_listener("7", 7, "max_connections"),
    "max.connections.per.ip": of_listener("7", 7, "max_connections_per_address"),
    "max.connections.per.ip.overrides": of_listener(
        "127.0.0.9:7", {"127.0.0.9": 7}, "per_address_overrides"
    ),
    "message.max.bytes": of_topic("7", 7, "max_message_bytes"),
    "min.insync.replicas": of_topic("2", 2, "min_insync_replicas"),
    "producer.id.expiration.ms": Effect("160", (0, 10), forgotten),
    "transaction.partition.verification.enable": Effect(
        "false",
        False,
        lambda broker: broker.services.settings.transaction_partition_verification_enable,
    ),
    "unclean.leader.election.enable": Effect(
        "true", True, lambda broker: broker.metadata._controller.rules.unclean
    ),
}


def test_each_dynamic_setting_has_an_effect_here() -> None:
    assert EFFECTS.keys() | THROTTLES.keys() | THREAD_COUNTS.keys() == DYNAMIC.keys()


async def test_each_setting_has_an_effect_on_a_running_broker(tmp_path: Path) -> None:
    async with started(tmp_path) as broker:
        await broker.metadata.create_topics([NewTopic("t")])
        for name, effect in EFFECTS.items():
            before = _use(effect, broker)
            assert before != effect.used, name
            # The settings of all brokers, because min.insync.replicas exists only there.
            kept = broker.metadata.image.broker_config(ALL_BROKERS).settings
            kept = {key: text for key, text in kept.items() if key == "min.insync.replicas"}
            await alter_to(broker, ALL_BROKERS, {**kept, name: effect.text})
            await until(lambda: _use(effect, broker) == effect.used)  # noqa: B023
            if name != "min.insync.replicas":
                await alter_to(broker, ALL_BROKERS, kept)
                await until(lambda: _use(effect, broker) == before)  # noqa: B023


def _use(effect: Effect, broker: Broker) -> Any:
    try:
        return effect.use(broker)
    except AttributeError:  # there is no rate without a limit
        return None


async def test_a_brokers_own_setting_overrides_that_of_all_and_both_survive_a_restart(
    tmp_path: Path,
) -> None:
    async with started(tmp_path, "message.max.bytes=100") as broker:
        await broker.metadata.create_topics(
            [NewTopic("t"), NewTopic("own", settings={"max.message.bytes": "5"})]
        )
        await alter(broker, ALL_BROKERS, message_max_bytes="200", log_retention_ms="7")
        await until(lambda: config_of(broker).max_message_bytes == 200)
        await alter(broker, "1", message_max_bytes="300")
        await until(lambda: config_of(broker).max_message_bytes == 300)
        await alter(broker, "2", message_max_bytes="400")
    async with started(tmp_path, "message.max.bytes=100") as broker:
        assert config_of(broker).max_message_bytes == 300
        assert config_of(broker).retention_ms == 7
        assert config_of(broker, "own").max_message_bytes == 5
        await alter(broker, "1")
        await until(lambda: config_of(broker).max_message_bytes == 200)
        await alter(broker, ALL_BROKERS)
        await until(lambda: config_of(broker).max_message_bytes == 100)
        assert broker.metadata.image.configs.keys() == {"broker/2"}
        await broker.metadata.create_topics([NewTopic("new")])
        assert config_of(broker, "new").max_message_bytes == 100


async def test_a_stored_setting_that_this_version_cannot_apply_stops_no_start(
    tmp_path: Path,
) -> None:
    from oncelog_server.cluster import records
    from oncelog_server.cluster.store import Put

    async with started(tmp_path) as broker:
        texts = {"from.a.newer.version": "1", "message.max.bytes": "soon", "log.retention.ms": "7"}
        record = records.encode(records.ConfigRecord(texts))
        await broker.metadata.store.txn((), (Put(records.broker_config_key(""), record),))
    async with started(tmp_path) as broker:
        assert broker.settings.message_max_bytes == 1_048_588
        assert broker.settings.dynamic_defaults == {"log.retention.ms": "7"}


async def test_the_limits_of_a_listener_change_while_the_broker_runs(tmp_path: Path) -> None:
    """KIP-402, KIP-612. They survive a restart, and end with their removal."""
    of_listener = "listener.name.plaintext.max.connections"
    rate = "listener.name.plaintext.max.connection.creation.rate"
    async with started(tmp_path, f"{of_listener}=9") as broker:
        assert broker._listener._limits.of_listeners == {"PLAINTEXT": 9}
        await alter_to(broker, ALL_BROKERS, {of_listener: "8"})
        await until(lambda: broker._listener._limits.of_listeners == {"PLAINTEXT": 8})
        own = {of_listener: "1", rate: "70", "listener.name.other.max.connections": "3"}
        await alter_to(broker, "1", own)
        await until(lambda: broker._listener._limits.of_listeners == {"PLAINTEXT": 1})
        _, limits = broker._listener._rates._limits()  # type: ignore[union-attr]
        assert limits == {"PLAINTEXT": 70}
        ((_, host, port),) = broker.addresses
        _, writer = await asyncio.open_connection(host, port)
        refused, other = await asyncio.open_connection(host, port)
        assert await refused.read() == b""
        writer.close()
        other.close()
        shown = {row.name: row for row in describe_broker(broker.settings)}
        assert [(found.value, found.source) for found in shown[of_listener].synonyms] == [
            ("1", ConfigSource.DYNAMIC_BROKER),
            ("8", ConfigSource.DYNAMIC_DEFAULT_BROKER),
            ("10000", ConfigSource.DEFAULT),
        ]
        assert [row.name for row in describe_defaults(broker.settings)] == [of_listener]
    async with started(tmp_path) as broker:
        assert broker._listener._limits.of_listeners == {"PLAINTEXT": 1}
        await alter_to(broker, "1", {})
        await alter_to(broker, ALL_BROKERS, {})
        await until(lambda: broker._listener._limits.of_listeners == {})


async def test_a_limit_that_would_close_each_connection_is_refused(tmp_path: Path) -> None:
    """No operator could take it back. A stored limit of an earlier version has no effect. If each
    listener has its own limit, Kafka accepts 0 for the broker."""
    of_listener = "listener.name.plaintext.max.connections"
    async with started(tmp_path) as broker:
        for name in (ALL_BROKERS, "1"):
            for setting in ("max.connections", of_listener, "max.connection.creation.rate"):
                with pytest.raises(
                    Refused, match=r"Invalid max.connection[a-z.]* 0 for"
                ) as refused:
                    await alter_to(broker, name, {setting: "0"})
                assert refused.value.code is ErrorCode.INVALID_REQUEST
        await alter_to(broker, "1", {of_listener: "5", "max.connections": "0"})
        with pytest.raises(Refused):
            await alter_to(broker, "1", {"max.connections": "0"})
        record = records.encode(ConfigRecord({"max.connections": "0", "log.retention.ms": "7"}))
        await broker.metadata.store.txn((), [Put(records.broker_config_key("1"), record)])
    async with started(tmp_path) as broker:
        assert broker.settings.max_connections > 0
        assert broker.settings.dynamic == {"log.retention.ms": "7"}


async def test_the_limit_of_connections_stays_below_the_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oncelog_server.operating_system import descriptors

    async with started(tmp_path) as broker:
        monkeypatch.setattr(descriptors, "affordable_connections", lambda: 50)
        follow_settings(broker._listener, broker.settings)
        assert broker._listener._limits.max_connections == 50


async def test_a_log_whose_topic_has_own_settings_gets_the_first_change(tmp_path: Path) -> None:
    async with started(tmp_path) as broker:
        await broker.metadata.create_topics([NewTopic("t", settings={"max.message.bytes": "5"})])
        await alter_to(broker, ALL_BROKERS, {"log.retention.ms": "7"})
        await until(lambda: config_of(broker).retention_ms == 7)
        assert config_of(broker).max_message_bytes == 5


@pytest.mark.parametrize(("first", "second"), [(ALL_BROKERS, "1"), ("1", ALL_BROKERS)])
async def test_settings_that_contradict_those_of_the_other_layer_are_refused(
    tmp_path: Path, first: str, second: str
) -> None:
    """A broker with both could not start again."""
    async with started(tmp_path) as broker:
        await alter_to(broker, first, {"log.cleaner.max.compaction.lag.ms": "50"})
        with pytest.raises(Refused) as refused:
            await alter_to(broker, second, {"log.cleaner.min.compaction.lag.ms": "100"})
        assert refused.value.code is ErrorCode.INVALID_REQUEST
    async with started(tmp_path) as broker:
        assert broker.settings.log_cleaner_max_compaction_lag_ms == 50
        assert broker.settings.log_cleaner_min_compaction_lag_ms == 0


@pytest.mark.parametrize(
    "stored",
    [
        {"max.connections.per.ip.overrides": "x"},
        {"log.retention.ms": "0"},
        {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "3"},
    ],
)
async def test_stored_settings_that_contradict_others_stop_no_start(
    tmp_path: Path, stored: dict[str, str]
) -> None:
    """A broker with other static settings may have accepted them."""
    async with started(tmp_path) as broker:
        record = records.encode(ConfigRecord({**stored, "log.segment.bytes": "7000000"}))
        await broker.metadata.store.txn((), [Put(records.broker_config_key("1"), record)])
    async with started(tmp_path) as broker:
        assert broker.settings.log_segment_bytes == 7_000_000
        assert set(broker.settings.dynamic) < {*stored, "log.segment.bytes"}
        await broker.metadata.create_topics([NewTopic("t")])
        assert config_of(broker).segment_bytes == 7_000_000


async def test_settings_that_fit_only_together_are_in_force_together(tmp_path: Path) -> None:
    own = {"log.cleaner.min.compaction.lag.ms": "100", "log.cleaner.max.compaction.lag.ms": "200"}
    static = Settings(log_cleaner_max_compaction_lag_ms=50)
    found = in_force(static, {**own, "log.retention.ms": "0"}, {})
    assert dict(found.dynamic) == own


async def test_the_network_threads_of_a_listener_are_kept_without_effect(tmp_path: Path) -> None:
    """A script for Kafka sets them for a broker or for all brokers, and reads them back."""
    name = "listener.name.plaintext.num.network.threads"
    async with started(tmp_path) as broker:
        await alter_to(broker, ALL_BROKERS, {name: "5"})
        await alter_to(broker, "1", {name: "4"})
        await until(lambda: broker.settings.dynamic == {name: "4"})
    async with started(tmp_path) as broker:
        shown = {row.name: row for row in describe_broker(broker.settings)}
        assert [(found.value, found.source) for found in shown[name].synonyms] == [
            ("4", ConfigSource.DYNAMIC_BROKER),
            ("5", ConfigSource.DYNAMIC_DEFAULT_BROKER),
            ("3", ConfigSource.DEFAULT),
        ]
        await alter_to(broker, "1", {})
        await until(lambda: broker.settings.dynamic == {})

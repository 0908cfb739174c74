"""The options of a source, read and checked before any request to a broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

from oncelog_client.core.consumer_config import ConsumerConfig, ConsumerSettings, consumer_config
from oncelog_client.spark.offsets.offsets import (
    ENDING_OPTIONS,
    LATEST,
    AtEdge,
    OffsetSpec,
    check_order,
    ending_spec,
    starting_spec,
)
from oncelog_client.spark.settings.client_settings import ClientSetup, client_setup, remarks
from oncelog_client.spark.settings.options import OptionError, Options

from .subscriptions import SourceSubscription, read_subscription

DEFAULT_MAX_TRIGGER_DELAY_MS: Final = 15 * 60_000
# The default of `spark.network.timeout`, which Spark's connector uses.
DEFAULT_POLL_TIMEOUT_MS: Final = 120_000
DEFAULT_FETCH_RETRIES: Final = 3
DEFAULT_FETCH_RETRY_INTERVAL_MS: Final = 1_000

_STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options. A limit that was not set is None. Times are in ms."""

    admin: ClientSetup
    consumer: ConsumerConfig
    subscription: SourceSubscription
    start: OffsetSpec
    end: OffsetSpec
    latest_where_no_match: bool
    max_offsets: int | None
    min_offsets: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records: int | None
    fail_on_data_loss: bool
    poll_timeout_ms: int
    fetch_retries: int
    fetch_retry_interval_ms: int
    commit_to_group: str | None
    remarks: tuple[str, ...]

    @property
    def read_committed(self) -> bool:
        return self.consumer.read_committed


def include_headers(options: Options) -> bool:
    """Return True if the schema has a column for headers. Raises OptionError."""
    return options.boolean("includeHeaders", False)


def source_options(options: Options, *, streaming: bool) -> SourceOptions:
    """Read and check the options. Raises OptionError for the first option that is refused."""
    said = (*options.remarks, *remarks(options, "source"))
    if streaming:
        _refuse_ends(options)
    else:
        ignored = [name for name in (*_STREAM_ONLY, "commitOffsetsToGroup") if name in options]
        said = (*said, *(f"{name} has no effect on a batch" for name in ignored))
    start = starting_spec(options, streaming=streaming)
    end = AtEdge(LATEST) if streaming else ending_spec(options)
    check_order(start, end)
    most = options.integer("maxOffsetsPerTrigger", least=1)
    least = options.integer("minOffsetsPerTrigger", least=1)
    if most is not None and least is not None and least > most:
        raise OptionError(
            "minOffsetsPerTrigger", str(least), f"more than maxOffsetsPerTrigger={most}"
        )
    strategy = options.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
    consumer = client_setup(options, "source", "consumer")
    return SourceOptions(
        admin=client_setup(options, "source", "admin"),
        consumer=consumer_config(
            consumer.bootstrap_servers, cast(ConsumerSettings, consumer.keywords)
        ),
        subscription=read_subscription(options),
        start=start,
        end=end,
        latest_where_no_match=strategy == "latest",
        max_offsets=most,
        min_offsets=least,
        max_trigger_delay_ms=options.duration_ms("maxTriggerDelay", DEFAULT_MAX_TRIGGER_DELAY_MS),
        min_partitions=options.integer("minPartitions", least=1),
        max_records=options.integer("maxRecordsPerPartition", least=1),
        fail_on_data_loss=options.boolean("failOnDataLoss", True),
        poll_timeout_ms=_set(options, "kafkaConsumer.pollTimeoutMs", 1, DEFAULT_POLL_TIMEOUT_MS),
        fetch_retries=_set(options, "fetchOffset.numRetries", 1, DEFAULT_FETCH_RETRIES),
        fetch_retry_interval_ms=_set(
            options, "fetchOffset.retryIntervalMs", 0, DEFAULT_FETCH_RETRY_INTERVAL_MS
        ),
        commit_to_group=_group(options),
        remarks=said,
    )


def _refuse_ends(options: Options) -> None:
    for name in ENDING_OPTIONS:
        if name in options:
            raise OptionError(name, options.text(name), "a stream has no end: leave the option out")


def _set(options: Options, name: str, least: int, default: int) -> int:
    found = options.integer(name, least=least)
    return default if found is None else found


def _group(options: Options) -> str | None:
    if "commitOffsetsToGroup" not in options:
        return None
    return options.required("commitOffsetsToGroup")

"""The options of a sink, read and checked before any request to a broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from oncelog_client.spark.settings.client_settings import ClientSetup, client_setup, remarks
from oncelog_client.spark.settings.options import KAFKA_PREFIX, OptionError, Options

from .messages import CommitKind

# The timeout of a task's transaction, from the first row of the task to the commit of the batch.
# The value is the longest that brokers allow by default (transaction.max.timeout.ms), so that the
# broker aborts a transaction as late as possible.
DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 900_000
TIMEOUT_OPTION: Final = KAFKA_PREFIX + "transaction.timeout.ms"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a sink. `sink_id`: None if the id is derived from the query's id, or if a
    batch write keeps no state. `forced`: the value of sinkProtocol, None for auto. `remarks`:
    sentences for the log about options without an effect."""

    admin: ClientSetup
    producer: ClientSetup
    sink_id: str | None
    forced: CommitKind | None
    adopts: bool
    topic: str | None
    checkpoint_location: str | None
    transaction_timeout_ms: int
    remarks: tuple[str, ...] = ()
    txn_app_id: str | None = None
    txn_version: int | None = None


def sink_options(options: Options, *, streaming: bool) -> SinkOptions:
    """Read and check the options. Raises OptionError."""
    producer = client_setup(options, "sink", "producer")
    timeout_ms = producer.keywords.get("transaction_timeout_ms", DEFAULT_TRANSACTION_TIMEOUT_MS)
    forced = options.choice("sinkProtocol", ("auto", *CommitKind), "auto")
    policy = options.choice("onNewCheckpoint", ("fail", "adopt"), "fail")
    if "topic" in options:
        options.required("topic")
    if "sinkId" in options:
        options.required("sinkId")
    app_id, version = _batch_write(options, streaming)
    return SinkOptions(
        admin=client_setup(options, "sink", "admin"),
        producer=producer.having(transaction_timeout_ms=timeout_ms),
        sink_id=options.text("sinkId") or app_id,
        forced=None if forced == "auto" else CommitKind(forced),
        adopts=policy == "adopt",
        topic=options.text("topic"),
        checkpoint_location=options.text("checkpointLocation"),
        transaction_timeout_ms=timeout_ms,
        remarks=(*options.remarks, *remarks(options, "sink")),
        txn_app_id=app_id,
        txn_version=version,
    )


def _batch_write(options: Options, streaming: bool) -> tuple[str | None, int | None]:
    """Return txnAppId and txnVersion, which make a batch write idempotent. Either both are set or
    neither is set."""
    names = ("txnAppId", "txnVersion")
    given = [name for name in names if name in options]
    if streaming:
        if given:
            raise OptionError(
                given[0],
                options.text(given[0]),
                "is for batch writes (also inside foreachBatch): a stream has its own query id"
                " and batch numbers",
            )
        return None, None
    if not given:
        if "sinkId" in options:
            raise OptionError(
                "sinkId",
                options.text("sinkId"),
                "of a batch write needs txnAppId and txnVersion, which say what was written before",
            )
        return None, None
    app_id = options.required("txnAppId")
    version = options.integer("txnVersion", least=0)
    if version is None:
        raise OptionError("txnVersion", None, "is needed with txnAppId")
    return app_id, version

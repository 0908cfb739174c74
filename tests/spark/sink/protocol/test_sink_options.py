"""The options of a sink: their meanings, and the errors that are raised before any write."""

from __future__ import annotations

import pytest

from oncelog_client.spark.settings.options import OptionError, Options
from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.sink_options import SinkOptions, sink_options

SERVERS = {"kafka.bootstrap.servers": "a:1"}


def stream(**given: str) -> SinkOptions:
    return sink_options(Options({**SERVERS, **given}), streaming=True)


def batch(**given: str) -> SinkOptions:
    return sink_options(Options({**SERVERS, **given}), streaming=False)


def test_default_values() -> None:
    found = stream(sinkId="orders")
    assert (found.sink_id, found.forced, found.adopts, found.topic) == ("orders", None, False, None)
    assert found.transaction_timeout_ms == 900_000
    assert found.producer.keywords["transaction_timeout_ms"] == 900_000


def test_each_option_sets_its_value() -> None:
    found = stream(
        SINKID="orders",
        sinkProtocol="RECORD",
        onNewCheckpoint="adopt",
        topic="t",
        checkpointLocation="/c",
        **{"kafka.transaction.timeout.ms": "5000", "kafka.linger.ms": "3"},
    )
    assert found.sink_id == "orders"
    assert found.forced is CommitKind.RECORD
    assert found.adopts
    assert (found.topic, found.checkpoint_location) == ("t", "/c")
    assert found.transaction_timeout_ms == 5000
    assert found.producer.keywords["linger_ms"] == 3


def test_the_default_sink_id_of_a_batch_write_is_its_application_id() -> None:
    found = batch(txnAppId="nightly", txnVersion="7")
    assert (found.sink_id, found.txn_app_id, found.txn_version) == ("nightly", "nightly", 7)
    found = batch(sinkId="orders", txnAppId="nightly", txnVersion="0")
    assert (found.sink_id, found.txn_app_id, found.txn_version) == ("orders", "nightly", 0)
    assert batch().sink_id is None


@pytest.mark.parametrize(
    "given",
    [
        {"txnAppId": "a"},
        {"txnVersion": "1"},
        {"txnAppId": "a", "txnVersion": "-1"},
        {"txnAppId": "", "txnVersion": "1"},
        # Without txnAppId and txnVersion, the sink's state would not say which writes it has.
        {"sinkId": "s"},
    ],
)
def test_a_batch_write_needs_both_txn_options_or_none(given: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="txn"):
        batch(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"txnAppId": "a"}, "is for batch writes"),
        ({"sinkId": " "}, "sinkId"),
        ({"topic": ""}, "topic"),
        ({"sinkProtocol": "both"}, "sinkProtocol='both': is not one of auto, group, record"),
        ({"onNewCheckpoint": "ignore"}, "onNewCheckpoint='ignore': is not one of fail, adopt"),
        ({"kafka.transactional.id": "x"}, "kafka.transactional.id"),
        ({"kafka.transaction.timeout.ms": "soon"}, "kafka.transaction.timeout.ms='soon'"),
    ],
)
def test_an_option_that_a_stream_does_not_support_is_refused(
    given: dict[str, str], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        stream(**given)

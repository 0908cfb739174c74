"""The choice between commit by group and commit by record: the option sinkProtocol decides, or else
the broker's features."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from oncelog.testing.broker import QUICK
from oncelog_client.spark.settings.options import Options
from oncelog_client.spark.sink import driver
from oncelog_client.spark.sink.protocol.messages import CommitKind, Intent
from oncelog_client.spark.sink.protocol.refusals import SinkError
from oncelog_client.spark.sink.protocol.sink_options import SinkOptions, sink_options
from tests.harness.broker import Oncelog


def options(broker: Oncelog, protocol: str, name: str = "orders") -> SinkOptions:
    given = {
        "kafka.bootstrap.servers": broker.address,
        "sinkId": name,
        "topic": "t",
        "sinkProtocol": protocol,
        "sinkID2": "?",
    }
    return sink_options(Options(given), streaming=True)


def test_a_sink_on_oncelog_commits_by_group_and_logs_this_once(
    broker: Oncelog, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = options(broker, "auto", name)
    assert driver.commit_kind(found) is CommitKind.GROUP
    assert driver.commit_kind(options(broker, "record")) is CommitKind.RECORD
    with caplog.at_level(logging.INFO):
        driver.plan(found, Intent(name, CommitKind.GROUP, query_id="q"))
        driver.plan(found, Intent(name, CommitKind.GROUP, query_id="q"))
    assert caplog.messages.count(f"sink {name} commits by group") == 1
    assert any("there is no option 'sinkid2'" in said for said in caplog.messages)


def test_a_sink_commits_by_record_if_the_broker_announces_no_group_transactions(
    tmp_path: Path,
) -> None:
    settings = {**QUICK, "group.transactions.enable": "false"}
    with Oncelog(tmp_path, settings) as broker:
        assert driver.commit_kind(options(broker, "auto")) is CommitKind.RECORD
        with pytest.raises(SinkError, match=r"does not announce oncelog\.group\.transactions"):
            driver.commit_kind(options(broker, "group"))


def test_a_sink_that_commits_by_record_because_of_the_broker_warns_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The message is a warning, because Spark's Python workers log only warnings and errors."""
    with Oncelog(tmp_path, {**QUICK, "group.transactions.enable": "false"}) as broker:
        for protocol, name in (("auto", "one"), ("auto", "one"), ("record", "two")):
            driver.plan(options(broker, protocol, name), Intent(name, CommitKind.RECORD, "q"))
    said = [message for message in caplog.messages if "commits by" in message]
    wanted = "commits by record: the broker does not announce oncelog.group.transactions"
    assert said == [f"sink one {wanted}"]

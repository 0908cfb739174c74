"""Each skipped batch write logs a warning: its version was written before. Without the warning, a
writer that restarts its version count would lose every write silently."""

from __future__ import annotations

import logging

import pyarrow
import pytest

from oncelog_client.spark.settings.options import Options
from oncelog_client.spark.sink import driver, task_writer
from oncelog_client.spark.sink.protocol.attempts import Attempt
from oncelog_client.spark.sink.protocol.messages import CommitKind, Intent, Plan, TaskMessage
from oncelog_client.spark.sink.protocol.sink_options import sink_options
from tests.harness.broker import Oncelog
from tests.harness.logged import logged
from tests.spark.topics import Topics


class Version:
    """One batch write of the application `app`. It has one row."""

    def __init__(self, broker: Oncelog, name: str, version: int) -> None:
        given = {
            "kafka.bootstrap.servers": broker.address,
            "txnAppId": "app",
            "txnVersion": str(version),
            "sinkId": name,
            "topic": name,
        }
        self.options = sink_options(Options(given), streaming=False)
        self.intent = Intent(name, CommitKind.GROUP, "app", version)

    def plan(self) -> Plan:
        return driver.plan(self.options, self.intent)

    def write(self, plan: Plan) -> TaskMessage:
        rows = pyarrow.RecordBatch.from_pylist([{"value": "v"}])
        return task_writer.write(plan, self.options, Attempt(0), iter([rows]))

    def commit(self, message: TaskMessage) -> bool:
        return driver.commit(self.options, [message], self.intent.batch_id, None)

    def run(self) -> bool:
        return self.commit(self.write(self.plan()))


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, driver.__name__)


def test_each_repetition_of_a_written_version_logs_a_warning(
    broker: Oncelog, topics: Topics, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    topics.create(name)
    assert Version(broker, name, 7).run()
    assert logged(caplog, driver.__name__) == []
    assert f"sink {name}: planned, " in caplog.text
    assert "batch 7: committed, tasks took " in caplog.text
    for version in (7, 3, 3):
        caplog.clear()
        assert not Version(broker, name, version).run()
        (said,) = logged(caplog, driver.__name__)
        assert f"sink {name}: txnVersion {version} of txnAppId app is skipped" in said
        assert "version 7 was written last" in said
        assert f"sink {name}: txnVersion {version} skipped, " in caplog.text
        assert f"batch {version}: skipped, " in caplog.text
        assert "committed" not in caplog.text
    assert len(topics.values(name)) == 1


def test_a_version_that_another_process_wrote_first_logs_a_warning(
    broker: Oncelog, topics: Topics, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    topics.create(name)
    slow = Version(broker, name, 7)
    message = slow.write(slow.plan())
    assert Version(broker, name, 7).run()
    caplog.clear()
    assert not slow.commit(message)
    (said,) = logged(caplog, driver.__name__)
    assert said == (
        "txnVersion 7 of txnAppId app is skipped, and its rows are aborted:"
        " another write of this version was committed first"
    )
    assert "batch 7: skipped, " in caplog.text
    assert len(topics.values(name)) == 1

"""The back-ends of a sink: the modules that a task imports, and the meaning of error codes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from oncelog_client.spark.background import background
from oncelog_client.spark.settings.client_settings import ClientSetup
from oncelog_client.spark.sink.group_commit import GroupCommit
from oncelog_client.spark.sink.protocol.state import SinkState
from oncelog_client.spark.sink.protocol.steps import Command, Decide, Outdated, Stage, Step
from oncelog_client.values import TransactionMember
from tests.harness.broker import Oncelog

LOADED = """
import sys
from oncelog_client.spark.sink.back_ends import back_end
from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.sink_options import sink_options
from oncelog_client.spark.settings.options import Options
import oncelog_client.spark.sink.task_writer
given = {"kafka.bootstrap.servers": "127.0.0.1:1", "sinkId": "s"}
back_end(sink_options(Options(given), streaming=True), CommitKind(sys.argv[1]), "s")
print(*sys.modules)
"""


@pytest.mark.parametrize("kind", ["group", "record"])
def test_a_task_imports_only_its_back_end_and_no_state_machine_of_the_driver(kind: str) -> None:
    command = [sys.executable, "-c", LOADED, kind]
    found = subprocess.run(command, capture_output=True, check=True, text=True)
    package = "oncelog_client.spark.sink."
    sink = {text.removeprefix(package) for text in found.stdout.split() if text.startswith(package)}
    assert not sink & {"driver", "planning", "committing", "aborting"}
    assert sink & {"group_commit", "record_commit"} == {f"{kind}_commit"}


def test_a_parent_with_another_producer_id_is_outdated(broker: Oncelog, name: str) -> None:
    """The parent is the producer with which the driver commits. If the broker has another producer
    id for the parent's transactional id, another driver may have initialized that id. So this
    driver is fenced."""
    parent = TransactionMember(name, 1_000_000, 0)
    state = SinkState(None, 1, 0)
    commands: list[Command] = [
        Stage(Step.COMMIT_STAGE, parent, state),
        Decide(Step.COMMIT_DECIDE, parent, (), state),
    ]
    group_commit = GroupCommit(ClientSetup(broker.address), name, 60_000)
    for command in commands:
        assert background().run(group_commit.perform(command), 60) == Outdated()

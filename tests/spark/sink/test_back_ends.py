"""What a task imports: nothing of the driver's."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = """
import sys
from oncelog_client.spark.sink.back_ends import back_end
from oncelog_client.spark.sink.messages import CommitKind
from oncelog_client.spark.sink.sink_options import sink_options
from oncelog_client.spark.options import Options
import oncelog_client.spark.sink.task_writer
given = {"kafka.bootstrap.servers": "127.0.0.1:1", "sinkId": "s"}
back_end(sink_options(Options(given), streaming=True), CommitKind(sys.argv[1]), "s")
print(*sys.modules)
"""


@pytest.mark.parametrize("kind", ["group", "record"])
def test_a_task_needs_no_machine_of_the_driver_and_no_other_back_end(kind: str) -> None:
    command = [sys.executable, "-c", LOADED, kind]
    found = subprocess.run(command, capture_output=True, check=True, text=True)
    package = "oncelog_client.spark.sink."
    sink = {one.removeprefix(package) for one in found.stdout.split() if one.startswith(package)}
    assert not sink & {"driver", "planning", "committing", "aborting"}
    assert sink & {"group_commit", "record_commit"} == {f"{kind}_commit"}

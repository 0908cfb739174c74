"""The broker imports some modules only after its start. If no file descriptor is free for an
import, the broker retries the import until a descriptor is free."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest

from tests.harness.broker import Oncelog
from tests.harness.driving import events
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.usefixtures("own_interpreter")

FAILED = {"not imported yet", "the log cleaner is not loaded yet"}
DONE = {"imported now", "the log cleaner is loaded now"}


@pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit")
def test_an_import_without_a_descriptor_is_retried_until_there_is_one(tmp_path: Path) -> None:
    """The broker logs one event for each failure and each success, without a traceback (D5, D6)."""
    with Oncelog(tmp_path) as broker:
        limit = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (3, limit[1]))
        wait_until(lambda: names(broker) >= FAILED, "both have failed")
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, limit)
        wait_until(lambda: names(broker) >= DONE, "both are loaded")
        for name in FAILED:
            assert [event["event"] for event in events(broker)].count(name) == 1
        assert broker.stop() == 0


def names(broker: Oncelog) -> set[str]:
    return {str(event["event"]) for event in events(broker)}

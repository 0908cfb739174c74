"""The changes of a recovery in the directories of several brokers of one machine."""

from __future__ import annotations

from pathlib import Path

from oncelog_server.cluster.store import Snapshot
from oncelog_server.log.checkpoints import MetaProperties
from oncelog_server.salvage.changes import PlannedChanges
from oncelog_server.salvage.planning.plan import Plan
from oncelog_server.storage.layout import CLEAN_SHUTDOWN

STRAY = f"t-0.{bytes(16).hex()}-stray"


def test_only_the_broker_that_takes_a_stray_forgets_its_clean_stop(tmp_path: Path) -> None:
    """Its next start scans the logs: no checkpoint has the recovery point of the stray."""
    second = tmp_path / "brokers" / "2"
    (second / STRAY).mkdir(parents=True)
    for directory in (tmp_path, second):
        (directory / CLEAN_SHUTDOWN).touch()
    plan = Plan(
        "c",
        {"": MetaProperties("c", 1, "d-1"), "brokers/2": MetaProperties("c", 2, "d-2")},
        Snapshot(1, ()),
        moves=[(f"brokers/2/{STRAY}", "brokers/2/t-0")],
        relabelled={},
        notes=[],
        left=[],
        stray_directories={"brokers/2"},
    )
    made: list[str] = []
    PlannedChanges(tmp_path, made.append).make(plan, store_is_right=True)
    assert (tmp_path / CLEAN_SHUTDOWN).exists()
    assert not (second / CLEAN_SHUTDOWN).exists()
    assert (second / "t-0").is_dir()
    # A recovery that is killed in between leaves no partition with an invalid mark.
    assert made[:2] == [
        f"remove brokers/2/{CLEAN_SHUTDOWN}",
        f"rename brokers/2/{STRAY} brokers/2/t-0",
    ]

"""The warnings that a recovery shows before it changes any file, about topics with lost
settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_server.log.checkpoints import encode_lines, offset_line
from oncelog_server.log.leader_epochs import LeaderEpochs
from oncelog_server.offline.read_only_files import ReadOnlyFiles
from oncelog_server.salvage.planning.evidence import FolderFacts, facts_of_all
from oncelog_server.salvage.planning.plan import Planner
from oncelog_server.settings.model import Settings
from oncelog_server.storage.layout import LEADER_EPOCH_CHECKPOINT
from tests.server.log.cleaner.compacting import Compacting
from tests.server.log.driver import DIRECTORY

COMPACTED = "cleanup.policy=compact"
LOST = "its settings are lost"


def folder(path: Path, driver: Compacting) -> None:
    (path / DIRECTORY).mkdir()
    for name, node in driver.files.nodes.items():
        (path / name).write_bytes(node.data)


def written() -> Compacting:
    driver = Compacting()
    for turn in range(3):
        driver.put(("a", f"{turn}"), ("b", f"{turn}"))
        driver.put((f"only{turn}", "here"))
        driver.put(("a", f"{turn} again"))
        driver.roll()
    return driver


def facts_of(path: Path) -> list[FolderFacts]:
    return list(facts_of_all(ReadOnlyFiles(), str(path), [DIRECTORY]))


def problems(facts: list[FolderFacts]) -> list[str]:
    """Return the notes in the plan of a recovery that has no metadata records."""
    planner = Planner(
        facts, None, None, features={}, new_uuid=lambda: bytes(16), settings=Settings()
    )
    return planner.plan().notes


@pytest.mark.parametrize("sign", ["gaps", "checkpoint", "cleaned", "none"])
def test_a_compacted_topic_with_lost_settings_is_named(tmp_path: Path, sign: str) -> None:
    driver = written()
    if sign == "gaps":
        driver.compact()
    folder(tmp_path, driver)
    if sign == "checkpoint":
        cleaned = encode_lines([offset_line(("topic", 0), 3)])
        (tmp_path / "cleaner-offset-checkpoint").write_bytes(cleaned)
    elif sign == "cleaned":
        (tmp_path / DIRECTORY / f"{0:020}.log.cleaned").touch()
    said = problems(facts_of(tmp_path))
    assert any(LOST in problem for problem in said)
    assert any(COMPACTED in problem for problem in said) == (sign != "none")


@pytest.mark.parametrize("segment", [0, 1])
def test_the_whole_part_of_a_log_ends_at_its_first_damage(tmp_path: Path, segment: int) -> None:
    driver = written()
    folder(tmp_path, driver)
    (whole,) = facts_of(tmp_path)
    assert whole.whole_end == whole.log_end
    assert whole.whole_epoch == whole.leader_epoch
    assert not whole.is_damaged
    path = sorted((tmp_path / DIRECTORY).glob("*.log"))[segment]
    path.write_bytes(path.read_bytes()[:-1])
    (damaged,) = facts_of(tmp_path)
    assert damaged.log_end == whole.log_end
    start = int(path.stem)
    assert start < damaged.whole_end < int(sorted(path.parent.glob("*.log"))[segment + 1].stem)
    assert damaged.is_damaged


def test_a_leader_epoch_that_begins_after_the_damage_does_not_count(tmp_path: Path) -> None:
    driver = written()
    folder(tmp_path, driver)
    (whole,) = facts_of(tmp_path)
    epochs = LeaderEpochs([(whole.leader_epoch, 0), (whole.leader_epoch + 5, whole.log_end)])
    (tmp_path / DIRECTORY / LEADER_EPOCH_CHECKPOINT).write_bytes(epochs.encode())
    (noted,) = facts_of(tmp_path)
    assert noted.whole_epoch == noted.leader_epoch == whole.leader_epoch + 5
    path = tmp_path / DIRECTORY / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:-1])
    (damaged,) = facts_of(tmp_path)
    assert damaged.whole_epoch == whole.leader_epoch
    assert damaged.leader_epoch == whole.leader_epoch + 5


def test_damage_is_not_taken_for_compaction(tmp_path: Path) -> None:
    driver = written()
    folder(tmp_path, driver)
    path = tmp_path / DIRECTORY / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    said = problems(facts_of(tmp_path))
    assert any(LOST in problem for problem in said)
    assert not any(COMPACTED in problem for problem in said)

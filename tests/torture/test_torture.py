"""A short run: exactly once holds with faults of broker and clients. `make torture` runs longer."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.folders import save_metadata
from tests.faults.recoveries import AGED, folder_of_the_torture
from tests.harness.broker import Oncelog
from tests.torture.faults import KINDS, POWER_LOSS
from tests.torture.platter import Platter
from tests.torture.power import PowerLoss
from tests.torture.rounds import SYNCED, Round

RECORDS = 4_000
FAULTS = 12
SEED = 20_260_101


@pytest.mark.parametrize("loses_power", [False, True], ids=["killed", "without-power"])
def test_g1_the_copy_loop_neither_loses_nor_doubles_a_record_under_faults(
    tmp_path: Path, loses_power: bool
) -> None:
    """The output has every fed record once and in order, committed offsets match the output, and
    every kind of fault has occurred."""
    said: list[str] = []
    settings = SYNCED if loses_power else {}
    round_ = Round(tmp_path, settings, loses_power, SEED, FAULTS, photographs=2)
    verdict = round_.run(RECORDS, said.append)
    assert verdict.is_clean, (verdict, said)
    assert verdict.records >= RECORDS
    assert verdict.faults >= FAULTS
    assert set(verdict.kinds) == set(KINDS) - (set() if loses_power else {POWER_LOSS})
    # One kill, and the two kills of a fault during recovery.
    assert verdict.kills >= 3
    assert (verdict.dropped > 0) == (verdict.forgotten > 0) == loses_power, verdict
    if not loses_power:
        _check_recoveries(tmp_path)


def _check_recoveries(directory: Path) -> None:
    """Recover two copies of the data directory, made when the broker was killed, without their
    metadata. `python -m tests.faults.recoveries --from-torture` recovers more such copies."""
    folders = sorted(directory.glob("oncelog/photograph-*"))
    assert len(folders) == 2
    older = directory / "older"
    save_metadata(Oncelog(folders[0]), older)
    for folder, lost in zip(folders, (AGED, "the store and its copy are gone"), strict=True):
        folder_of_the_torture(folder, older, lost, killed=True)


STUCK = """
import threading
from tests.torture import copier
copier.STUCK_AFTER_S = 1
copier.insist(lambda timeout_s: threading.Event().wait())
"""


def test_a_copier_ends_if_a_call_does_not_return() -> None:
    """Its supervisor then starts another copier."""
    ended = subprocess.run([sys.executable, "-c", STUCK], check=False)
    assert ended.returncode == -signal.SIGALRM


# --- the files after a power loss


def platter_of(*lines: object) -> Platter:
    """Return the disk after these lines of the journal and an incomplete last line."""
    platter = Platter()
    platter.read([*map(json.dumps, lines), '{"unlink": "t-'])
    return platter


def lost(platter: Platter, seed: int) -> set[str]:
    """Return the names of the files that are left after a power loss."""
    platter.lose_power(random.Random(seed))
    return set(platter.names.files)


MADE = ({"mkdir": "t-0"}, {"create": ["t-0/0.log", 7]})


def names_synced(directory: str) -> tuple[object, ...]:
    return {"begin": 5}, {"names": directory, "descriptor": 5}


def test_a_name_is_durable_once_its_directories_are_synced() -> None:
    """A name is durable if all directories up to the data directory are synced. After an unsynced
    rename, either name may be left."""
    outcomes = {frozenset(lost(platter_of(*MADE), seed)) for seed in range(40)}
    assert outcomes == {frozenset(), frozenset({"t-0/0.log"})}
    inner = (*MADE, *names_synced("t-0"))
    assert {frozenset(lost(platter_of(*inner), seed)) for seed in range(40)} == outcomes
    both = (*inner, *names_synced(""))
    assert all(lost(platter_of(*both), seed) == {"t-0/0.log"} for seed in range(40))
    renamed = (*both, {"rename": ["t-0/0.log", "t-0/1.log"]})
    assert {*map(frozenset, (lost(platter_of(*renamed), seed) for seed in range(40)))} == {
        frozenset({"t-0/0.log"}),
        frozenset({"t-0/1.log"}),
    }


def test_a_name_created_during_the_sync_of_its_directory_may_be_lost() -> None:
    """A sync of a directory covers only the names that existed when it began."""
    late = ({"begin": 5}, {"create": ["late", 8]}, {"names": "", "descriptor": 5})
    assert {len(lost(platter_of(*late), seed)) for seed in range(40)} == {0, 1}


def test_a_truncation_may_be_undone_until_it_is_synced() -> None:
    """Until a sync, a truncated file may have its former length."""
    cut = ({"synced": [7, 10]}, {"cut": [7, 8, b"xy".hex()]})
    platter = platter_of(*MADE, *cut)
    assert platter.sizes == {7: 8}
    assert [tuple(cut) for cut in platter.cuts[7]] == [(8, b"xy", 10)]
    assert not platter_of(*MADE, *cut, {"synced": [7, 8]}).cuts


CHANGES = """
import os, sys
from tests.torture.traced import Journal
Journal(*sys.argv[1:]).watch()
os.makedirs(os.path.join(sys.argv[3], "t-0"))
os.chdir(os.path.join(sys.argv[3], "t-0"))
def write(name, data):
    file = os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
    os.write(file, data)
    os.fdatasync(file)
    return file
write("old", b"first"), write("gone", b"gone")
cut = write("cut", b"to be cut")
for directory in (".", ".."):
    os.fsync(os.open(directory, os.O_RDONLY))
write("new", b"second")
os.replace("new", "old")
os.unlink("gone")
os.ftruncate(cut, 5)
"""


def test_a_file_changed_without_a_sync_has_its_old_or_its_new_contents(tmp_path: Path) -> None:
    """After a power loss, a file that a traced process replaced, unlinked or truncated without a
    sync has its old or its new contents."""
    seen: dict[str, set[bytes | None]] = {"old": set(), "gone": set(), "cut": set()}
    for seed in range(16):
        journal, shadow, data = (tmp_path / f"{seed}-{name}" for name in ("journal", "shadow", "d"))
        paths = [*map(str, (journal, shadow, data))]
        subprocess.run([sys.executable, "-c", CHANGES, *paths], check=True)
        PowerLoss(journal, shadow, data, random.Random(seed)).strike()
        for name, contents in seen.items():
            path = data / "t-0" / name
            contents.add(path.read_bytes() if path.exists() else None)
    assert seen == {
        "old": {b"first", b"second"},
        "gone": {b"gone", None},
        "cut": {b"to be", b"to be cut"},
    }

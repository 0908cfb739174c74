"""The table of markers holds for files that exist, and processes are not started without one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lanes import MARKERS, PAGE, markers_of

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("prefix", MARKERS)
def test_every_row_is_of_a_file_or_a_folder(prefix: str) -> None:
    path = ROOT / prefix
    assert path.is_dir() if prefix.endswith("/") else path.is_file()


@pytest.mark.parametrize(
    ("path", "markers"),
    [
        ("tests/server/log/test_log.py", ()),
        ("tests/server/log/cleaner/test_crashes.py", ("slow",)),
        ("tests/faults/test_recover.py", ("process",)),
        ("tests/new/test_new.py", ("process",)),
    ],
)
def test_the_longest_row_counts(path: str, markers: tuple[str, ...]) -> None:
    assert markers_of(path) == markers


def test_a_process_without_a_marker_is_refused() -> None:
    with pytest.raises(AssertionError, match=f"give its file a row in {PAGE}"):
        subprocess.run([sys.executable, "-c", "pass"], check=True)

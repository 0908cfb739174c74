"""The markers of test files, the order of the files, and the files that share a process. A test
without a marker starts no process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tests.examples
from tests.distribution import FIXTURES, LONGEST_FIRST, PROCESSES, ends_process, process_of
from tests.examples import examples
from tests.lanes import DESELECTED, MARKERS, PAGE, is_left_out, markers_of, path_of, place_of

DISTRIBUTION = "tests/distribution.py"
ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("prefix", MARKERS)
def test_every_row_of_markers_names_a_file_or_a_folder(prefix: str) -> None:
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
def test_the_longest_path_that_matches_a_file_gives_its_markers(
    path: str, markers: tuple[str, ...]
) -> None:
    assert markers_of(path) == markers


QUICK = "not process and not java and not spark and not slow"


@pytest.mark.parametrize(
    ("path", "expression", "left_out"),
    [
        ("tests/server/log/test_log.py", QUICK, False),
        ("tests/server/log/cleaner/test_crashes.py", QUICK, True),
        ("tests/server/log/cleaner/test_crashes.py", "not process", False),
        ("tests/server/log/cleaner/test_crashes.py", "", False),
        # Some tests have more markers than their file, because their fixtures need them.
        ("tests/server/log/cleaner/test_crashes.py", "java or not slow", False),
        ("tests/server/log/cleaner/test_crashes.py", "slow", False),
        ("tests/faults/test_recover.py", QUICK, True),
        ("tests/faults", QUICK, False),
    ],
)
def test_a_file_is_ignored_if_the_marker_expression_excludes_all_its_tests(
    path: str, expression: str, left_out: bool
) -> None:
    assert is_left_out(path, expression) is left_out


def test_make_quick_has_the_marker_expression_of_these_tests() -> None:
    assert f'-m "{QUICK}"' in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_shared_processes_come_first_then_few_long_tests_and_files_without_a_marker_last() -> None:
    counts = {
        "tests/server/log/test_log.py": 1,
        "tests/client/core/test_markers.py": 80,
        "tests/faults/test_crash_points.py": 98,
        "tests/protocol/test_codecs_agree.py": 900,
        "tests/torture/test_torture.py": 2,
        "tests/conformance/test_groups.py": 56,
        "tests/spark/faults/test_group_steps.py": 18,
        "tests/conformance/sasl/test_jaas.py": 2,
    }
    assert sorted(counts, key=lambda path: place_of(path, counts)) == [
        "tests/spark/faults/test_group_steps.py",
        "tests/conformance/test_groups.py",
        "tests/conformance/sasl/test_jaas.py",
        "tests/torture/test_torture.py",
        "tests/faults/test_crash_points.py",
        "tests/protocol/test_codecs_agree.py",
        "tests/server/log/test_log.py",
        "tests/client/core/test_markers.py",
    ]


@pytest.mark.parametrize(
    ("path", "process"),
    [
        ("tests/conformance/test_groups.py", "kafka"),
        ("tests/client/test_two_phase.py", "kafka-client"),
        ("tests/client/io/test_sender.py", "tests/client/io/test_sender.py"),
        ("tests/conformance/test_failures.py", "tests/conformance/test_failures.py"),
        ("tests/spark/source/test_batch.py", "spark"),
        ("tests/spark/faults/test_group_steps.py", "spark-steps"),
        ("tests/spark/faults/test_standalone.py", "tests/spark/faults/test_standalone.py"),
        ("tests/faults/test_recover.py", "tests/faults/test_recover.py"),
    ],
)
def test_files_with_spark_or_kafka_share_a_process(path: str, process: str) -> None:
    assert process_of(path) == process


@pytest.mark.parametrize(
    ("path", "following", "ends"),
    [
        ("tests/conformance/test_groups.py", "tests/conformance/test_tools.py", False),
        ("tests/conformance/test_groups.py", "tests/client/test_two_phase.py", True),
        ("tests/conformance/test_groups.py", "tests/faults/test_recover.py", True),
        ("tests/conformance/test_groups.py", "tests/spark/source/test_batch.py", True),
        ("tests/faults/test_recover.py", "tests/server/test_serve.py", False),
    ],
)
def test_spark_and_kafka_end_with_the_last_file_that_needs_them(
    path: str, following: str, ends: bool
) -> None:
    assert ends_process(path, following) is ends


def test_every_shared_process_has_a_turn() -> None:
    assert {*LONGEST_FIRST} == {process for process in PROCESSES.values() if process is not None}


@pytest.mark.parametrize("prefix", PROCESSES)
def test_every_shared_process_has_files(prefix: str) -> None:
    assert [*ROOT.glob(f"{prefix}*")]


def test_every_file_that_needs_spark_or_kafka_is_in_its_process(
    request: pytest.FixtureRequest,
) -> None:
    """Otherwise a further process of xdist starts Spark or Kafka."""
    for item in (*request.session.items, *request.config.stash.get(DESELECTED, [])):
        path = path_of(item)
        assert isinstance(item, pytest.Function)
        for name, definitions in item._fixtureinfo.name2fixturedefs.items():
            processes = FIXTURES.get((definitions[-1].baseid, name))
            if processes is not None:
                assert process_of(path) in processes, f"give {path} a row in {DISTRIBUTION}"


def test_xdist_keeps_the_order_of_the_files() -> None:
    assert "--dist loadfile --no-loadscope-reorder" in (ROOT / "Makefile").read_text("utf-8")


@pytest.mark.parametrize(
    ("count", "quick", "all_of_them"), [(500, 100, 500), (100, 20, 100), (30, 10, 30), (8, 8, 8)]
)
def test_make_quick_tries_a_fifth_of_the_hypothesis_examples(
    monkeypatch: pytest.MonkeyPatch, count: int, quick: int, all_of_them: int
) -> None:
    monkeypatch.setattr(tests.examples, "IS_QUICK", True)
    assert examples(count) == quick
    monkeypatch.setattr(tests.examples, "IS_QUICK", False)
    assert examples(count) == all_of_them


def test_a_test_without_a_marker_cannot_start_a_process() -> None:
    with pytest.raises(AssertionError, match=f"give its file a row in {PAGE}"):
        subprocess.run([sys.executable, "-c", "pass"], check=True)

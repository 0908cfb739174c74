"""The markers of every test: the need for a process, Java, Spark, or seconds of a processor.

`make quick` runs the tests without a marker. `MARKERS` has rows for paths. A test gets the markers
of the longest path that its file's path begins with, and those of its fixtures. A test without
`process`, `java` or `spark` fails if it starts a process.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

import pytest

from tests.distribution import turn_of

# The tests that `-k` leaves out, in the stash of a configuration.
DESELECTED: Final = pytest.StashKey[list[pytest.Item]]()
NONE: Final[tuple[str, ...]] = ()
PROCESS: Final = ("process",)
SLOW: Final = ("slow",)

MARKERS: Final[dict[str, tuple[str, ...]]] = {
    "tests/": PROCESS,
    "tests/client/admin/test_live_brokers.py": NONE,
    "tests/client/core/": NONE,
    "tests/client/io/": NONE,
    "tests/client/io/test_auto_commit.py": PROCESS,
    "tests/client/io/test_cluster.py": PROCESS,
    "tests/client/io/test_sender_failures.py": PROCESS,
    "tests/cluster/": PROCESS,
    "tests/deep_dive/": ("process", "java"),
    "tests/docs/test_java_blocks.py": ("process", "java"),
    "tests/docs/test_site.py": ("process", "slow"),
    "tests/ecosystem/": ("process", "java"),
    "tests/exploration/": SLOW,
    "tests/image/test_secured_compose.py": ("process", "java"),
    "tests/monitoring/": PROCESS,
    "tests/mutants/": ("process", "slow"),
    "tests/protocol/": NONE,
    "tests/protocol/records/test_other_libraries.py": SLOW,
    "tests/protocol/test_checksum.py": PROCESS,
    "tests/protocol/test_codecs_agree.py": SLOW,
    "tests/protocol/test_hostile_bytes.py": SLOW,
    "tests/scenarios/": SLOW,
    "tests/security/": PROCESS,
    "tests/security/test_clients.py": ("process", "java"),
    "tests/server/": NONE,
    "tests/server/cleaning/test_broker.py": PROCESS,
    "tests/server/exit_monitor/test_process.py": PROCESS,
    "tests/server/exit_monitor/test_revocation.py": PROCESS,
    "tests/server/faults/": PROCESS,
    "tests/server/group/test_exhaustion.py": SLOW,
    "tests/server/group/test_offsets.py": SLOW,
    "tests/server/log/cleaner/test_crashes.py": SLOW,
    "tests/server/log/cleaner/test_properties.py": SLOW,
    "tests/server/metadata/test_convergence.py": SLOW,
    "tests/server/observe/test_scrape.py": PROCESS,
    "tests/server/inspection/test_dump.py": SLOW,
    "tests/server/inspection/test_verify.py": PROCESS,
    "tests/server/security/sasl/test_hostile_tokens.py": SLOW,
    "tests/server/test_background_tasks.py": PROCESS,
    "tests/server/test_dev.py": PROCESS,
    "tests/server/startup/test_first_users.py": PROCESS,
    "tests/server/test_garbage.py": PROCESS,
    "tests/server/late/test_late_imports.py": PROCESS,
    "tests/server/test_serve.py": PROCESS,
    "tests/server/test_start_imports.py": PROCESS,
    "tests/server/transaction/grouped/test_coordinator.py": SLOW,
    "tests/server/transaction/test_coordinator_crashes.py": SLOW,
    "tests/server/transaction/test_exhaustion.py": SLOW,
    "tests/server/transaction/test_producer_id_quota.py": SLOW,
    "tests/server/transaction/test_two_phase_properties.py": SLOW,
    "tests/simulation/": ("process", "slow"),
    "tests/simulation/etcd/": PROCESS,
    "tests/spark/": ("process", "spark"),
    "tests/test_lanes.py": NONE,
}
STARTS_A_PROCESS: Final = frozenset({"process", "java", "spark"})
# Tests with these markers have a long timeout. The first test with a JVM also waits for the JVM's
# start. The timeout is so long that it interrupts only tests that hang, because an interrupted test
# of Spark leaves the session unusable for all later tests.
JVMS: Final = frozenset({"java", "spark"})
JVM_TIMEOUT_S: Final = 900
MARKERS_OF_FIXTURES: Final = {
    "kafka": "java",
    "fresh_kafka": "java",
    "kafka_jars": "java",
    "etcd_program": "process",
    "real_etcd": "process",
    "running_cluster": "process",
    "running_oncelog": "process",
    "secured_kafka": "java",
    "bootstrap": "process",  # the brokers of tests/client: oncelog, and Apache Kafka
}

PAGE: Final = "tests/lanes.py"

_NOT_THESE: Final = re.compile(r"not \w+( and not \w+)*")

# CPython's audit events for the start of a process.
_EVENTS: Final = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"})


def markers_of(path: str) -> tuple[str, ...]:
    """Return the markers of the tests in a file; `path` begins with `tests/`."""
    return MARKERS[max((prefix for prefix in MARKERS if path.startswith(prefix)), key=len)]


def is_left_out(path: str, expression: str) -> bool:
    """Return True if a run with this marker expression (`-m`) excludes all tests of a file: if the
    expression only excludes markers (`not slow and not java`), and the file has one of them."""
    if not _NOT_THESE.fullmatch(expression) or not path.endswith(".py"):
        return False
    return not set(expression.split()).isdisjoint(markers_of(path))


def order(items: list[pytest.Item]) -> None:
    """Sort the tests for a run of several processes (see `place_of`)."""
    counts = Counter(map(path_of, items))
    items.sort(key=lambda item: place_of(path_of(item), counts))


def place_of(path: str, counts: Mapping[str, int]) -> tuple[int, bool, int, str]:
    """Return the sort key of a file. `counts`: the number of tests of each file.

    The files that share a process (`tests.distribution`) come first, because other processes cannot
    take over some of them later. The longest process comes first.
    Files with a marker come before files without. In each part, files with few tests come first,
    because a few tests may take minutes, while thousands of tests take little time each. At the end
    of a run, every free process then gets short tests.
    """
    return turn_of(path), not markers_of(path), counts[path], path


def path_of(item: pytest.Item) -> str:
    """Return the path of a test's file from the root of the project."""
    return item.path.relative_to(item.config.rootpath).as_posix()


def mark(item: pytest.Item) -> None:
    """Give a collected test its markers."""
    path = path_of(item)
    fixtures = getattr(item, "fixturenames", ())
    names = {MARKERS_OF_FIXTURES[name] for name in fixtures if name in MARKERS_OF_FIXTURES}
    names.update(markers_of(path))
    for name in sorted(names):
        item.add_marker(name)
    if names & JVMS and item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(JVM_TIMEOUT_S))


class Guard:
    """An audit hook that fails a test if it starts a process without a marker for that."""

    def __init__(self) -> None:
        self.running: pytest.Item | None = None

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in _EVENTS and self.running is not None:
            self._refuse(self.running)

    def _refuse(self, test: pytest.Item) -> None:
        if not STARTS_A_PROCESS & {marker.name for marker in test.iter_markers()}:
            raise AssertionError(f"{test.nodeid} starts a process: give its file a row in {PAGE}")

"""kcat, Debian's command line for librdkafka, in each of its modes: the same output from oncelog
and from Apache Kafka."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time

import pytest

from oncelog.testing.wire import Wire
from tests.ecosystem.conftest import Broker
from tests.harness.debian import DebianUnavailable, unpacked
from tests.harness.driving import create

TIMEOUT_S = 60.0
PARTITIONS = 2


@pytest.fixture(scope="module")
def program() -> tuple[str, dict[str, str]]:
    """kcat and the environment in which it finds its libraries."""
    found = shutil.which("kcat")
    if found is not None:
        return found, dict(os.environ)
    try:
        files = unpacked("kcat", "librdkafka1", "libyajl2")
    except DebianUnavailable as reason:
        pytest.skip(f"kcat cannot be run: {reason}")
    libraries = files / "usr" / "lib" / "x86_64-linux-gnu"
    return str(files / "usr" / "bin" / "kcat"), {**os.environ, "LD_LIBRARY_PATH": str(libraries)}


class Kcat:
    """Runs kcat against one broker."""

    def __init__(self, program: str, environment: dict[str, str], address: str) -> None:
        self._program = program
        self._environment = environment
        self._address = address

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Return the standard output. An exit code other than 0 fails."""
        outcome = subprocess.run(
            [self._program, "-b", self._address, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=self._environment,
            check=False,
        )
        assert outcome.returncode == 0, outcome.stderr
        return outcome.stdout


@pytest.fixture
def kcat(broker: Broker, program: tuple[str, dict[str, str]]) -> Kcat:
    with Wire(broker.address) as wire:
        create(wire, "t", partitions=PARTITIONS)
    return Kcat(*program, broker.address)


def test_produce_and_consume_keys_headers_and_null_values(kcat: Kcat) -> None:
    kcat("-P", "-t", "t", "-p", "1", "-K", ":", "-Z", "-H", "trace=7", stdin="k:v\nempty:\n")
    text = kcat("-C", "-t", "t", "-p", "1", "-e", "-q", "-f", "%p %o %k=%s(%S) %h\\n")
    assert text == "1 0 k=v(1) trace=7\n1 1 empty=(-1) trace=7\n"


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read_back(kcat: Kcat, codec: str) -> None:
    lines = "".join(f"line {number}\n" for number in range(1_000))
    kcat("-P", "-t", "t", "-p", "0", "-z", codec, stdin=lines)
    assert kcat("-C", "-t", "t", "-p", "0", "-e", "-q") == lines
    assert kcat("-C", "-t", "t", "-p", "0", "-o", "-3", "-e", "-q").splitlines() == [
        f"line {number}" for number in (997, 998, 999)
    ]
    assert kcat("-C", "-t", "t", "-p", "0", "-o", "500", "-c", "1", "-q") == "line 500\n"


def test_the_metadata_mode_lists_the_broker_and_the_topic(kcat: Kcat, broker: Broker) -> None:
    listed = json.loads(kcat("-L", "-J", "-t", "t"))
    (row,) = listed["brokers"]
    assert row["name"].rpartition(":")[2] == broker.address.rpartition(":")[2]
    (topic,) = listed["topics"]
    assert topic["topic"] == "t"
    assert [partition["partition"] for partition in topic["partitions"]] == [*range(PARTITIONS)]
    assert {partition["leader"] for partition in topic["partitions"]} == {row["id"]}


def test_the_query_mode_finds_offsets_by_time(kcat: Kcat) -> None:
    kcat("-P", "-t", "t", "-p", "0", stdin="first\n")
    between_ms = int(time.time() * 1000) + 1
    while time.time() * 1000 < between_ms:
        pass
    kcat("-P", "-t", "t", "-p", "0", stdin="second\n")
    for place, offset in ((f"t:0:{between_ms}", 1), ("t:0:-2", 0), ("t:0:-1", 2), ("t:1:-1", 0)):
        partition = place.split(":")[1]
        assert kcat("-Q", "-t", place) == f"t [{partition}] offset {offset}\n"


def test_the_group_mode_continues_at_the_committed_offsets(kcat: Kcat) -> None:
    group = ("-G", "readers", "-X", "auto.offset.reset=earliest", "-q", "-e", "t")
    for lines in ("one\ntwo\n", "three\n"):
        for partition in range(PARTITIONS):
            kcat("-P", "-t", "t", "-p", str(partition), stdin=lines)
        expected = sorted(lines.splitlines() * PARTITIONS)
        assert sorted(kcat(*group).splitlines()) == expected


def test_a_transactional_write_is_visible_to_a_reader_of_committed_records(kcat: Kcat) -> None:
    """kcat writes its whole input in one transaction."""
    kcat("-P", "-t", "t", "-p", "0", "-X", "transactional.id=kcat", stdin="a\nb\n")
    committed = ("-C", "-t", "t", "-p", "0", "-e", "-q", "-X", "isolation.level=read_committed")
    assert kcat(*committed) == "a\nb\n"

"""SCRAM credentials are altered exactly as by Kafka's ScramControlManager, which runs in the same
test."""

from __future__ import annotations

import json
import subprocess
from base64 import b64encode
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from oncelog_server.cluster.scram_changes import (
    ScramDeletion,
    ScramUpsertion,
    alter_credentials,
    by_user,
)
from tests.examples import drawn
from tests.harness.kafka.compiled import compiled
from tests.harness.kafka.jars import KafkaUnavailable, class_archive, classpath, java
from tests.harness.kafka.kafka import TEST_JVM_OPTIONS
from tests.server.cluster.clusters import Cluster

HISTORIES: Final = drawn(3_000)
TIMEOUT_S: Final = 120.0
# Valid values are more frequent, so that many requests change something.
USERS: Final = ("alice", "bob", "b/b", "é,=", *map(str, range(8)), "")
MECHANISMS: Final = (*(1, 2) * 10, 0, 3, -1)
ITERATIONS: Final = (*(4096, 16_384, 8192) * 5, 4095, 16_385, 0, -1)
SALTED: Final = (*("salted", "x", "x" * 200) * 5, "")
# A request: its deletions and its upsertions
Request = tuple[list[tuple[str, int]], list[tuple[str, int, int, str]]]


def history(seed: int) -> list[Request]:
    """Return requests to a controller that has no credentials at first."""
    random = Random(seed)

    def deletion() -> tuple[str, int]:
        return random.choice(USERS), random.choice(MECHANISMS)

    return [
        (
            [deletion() for _ in range(random.randrange(4))],
            [
                (*deletion(), random.choice(ITERATIONS), random.choice(SALTED))
                for _ in range(random.randrange(4))
            ],
        )
        for _ in range(random.randrange(1, 8))
    ]


def our_outcomes(requests: list[Request]) -> list[Any]:
    cluster = Cluster()
    outcomes: list[Any] = []
    for deletions, upsertions in requests:
        altered = by_user(
            [ScramDeletion(*row) for row in deletions],
            [
                ScramUpsertion(user, mechanism, iterations, b"salt", salted.encode())
                for user, mechanism, iterations, salted in upsertions
            ],
        )
        writes, refused = alter_credentials(cluster.image, altered)
        assert cluster.apply(writes)
        results = {
            user: [refused[user].code, refused[user].message or None]
            if user in refused
            else [0, None]
            for user in altered
        }
        credentials = {
            f"{mechanism}/{user}": [*map(text, credential[:3]), credential.iterations]
            for (mechanism, user), credential in cluster.image.scram_credentials.items()
        }
        outcomes.append([results, credentials])
    return outcomes


def text(data: bytes) -> str:
    return b64encode(data).decode()


def kafkas_outcomes(histories: list[list[Request]], folder: Path) -> list[list[Any]]:
    try:
        jars = classpath()
        classes = compiled(Path(__file__).with_name("ScramOracle.java"), jars)
    except KafkaUnavailable as reason:
        pytest.skip(f"Apache Kafka cannot be run: {reason}")
    (folder / "histories").write_text("".join(json.dumps(each) + "\n" for each in histories))
    options = [*TEST_JVM_OPTIONS, *class_archive().options, "-Dorg.apache.logging.log4j.level=OFF"]
    main = "org.apache.kafka.controller.ScramOracle"
    subprocess.run(
        [java(), *options, "-cp", f"{jars}:{classes}", main,
         str(folder / "histories"), str(folder / "outcomes")],
        check=True, timeout=TIMEOUT_S, capture_output=True,
    )  # fmt: skip
    return [json.loads(line) for line in (folder / "outcomes").read_text().splitlines()]


def test_every_alteration_ends_as_in_kafka(tmp_path: Path) -> None:
    histories = [history(seed) for seed in range(HISTORIES)]
    theirs = kafkas_outcomes(histories, tmp_path)
    assert len(theirs) == HISTORIES
    for requests, expected in zip(histories, theirs, strict=True):
        assert our_outcomes(requests) == expected, requests
    codes = [row[0] for outcome in theirs for users, _ in outcome for row in users.values()]
    # A test in which nearly every result is the same would find little.
    assert 0.1 < codes.count(0) / len(codes) < 0.9
    assert set(codes) == {-1, 0, 33, 91, 92, 93}

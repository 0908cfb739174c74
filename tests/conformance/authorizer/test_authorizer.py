"""Our authorizer decides exactly as Kafka's StandardAuthorizer, which runs in the same test."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conformance.authorizer.worlds import World, world
from tests.harness.kafka.compiled import compiled
from tests.harness.kafka.jars import KafkaUnavailable, class_archive, classpath, java
from tests.harness.kafka.kafka import TEST_JVM_OPTIONS

SETS, SEQUENCES = 20_000, 5_000
TIMEOUT_S = 120.0


def kafkas_decisions(worlds: list[World], folder: Path) -> list[list[int]]:
    try:
        jars = classpath()
        classes = compiled(Path(__file__).with_name("Oracle.java"), jars)
    except KafkaUnavailable as reason:
        pytest.skip(f"Apache Kafka cannot be run: {reason}")
    (folder / "worlds").write_text("".join(json.dumps(w.to_json()) + "\n" for w in worlds))
    options = [*TEST_JVM_OPTIONS, *class_archive().options, "-Dorg.apache.logging.log4j.level=OFF"]
    command = [java(), *options, "-cp", f"{jars}:{classes}", "Oracle"]
    subprocess.run(
        [*command, str(folder / "worlds"), str(folder / "decisions")],
        check=True, timeout=TIMEOUT_S, capture_output=True,
    )  # fmt: skip
    return [json.loads(line) for line in (folder / "decisions").read_text().splitlines()]


@pytest.mark.parametrize(
    ("number", "changes"), [(SETS, False), (SEQUENCES, True)], ids=["sets", "sequences"]
)
def test_every_decision_is_kafkas(number: int, changes: bool, tmp_path: Path) -> None:
    """Sets of rules with twelve questions each, a quarter of them about a type of resource. In a
    sequence, rules are added and removed between the questions."""
    worlds = [world(seed, changes=changes) for seed in range(number)]
    theirs = kafkas_decisions(worlds, tmp_path)
    assert len(theirs) == number
    different = [
        (each.to_json(), ours, decided)
        for each, decided in zip(worlds, theirs, strict=True)
        if (ours := each.decisions()) != decided
    ]
    assert not different, different[0]
    allowed = sum(sum(decided) for decided in theirs)
    asked = sum(len(decided) for decided in theirs)
    # A test in which nearly every decision is the same would find little.
    assert 0.1 < allowed / asked < 0.9

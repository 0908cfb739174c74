"""Principals of certificates are exactly those of Kafka, with Java in the same test."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from oncelog_protocol.security.der import DerError
from oncelog_protocol.security.x500_name import x500_name
from oncelog_server.security.principal_rules import (
    NoRuleApplies,
    PrincipalRules,
    PrincipalRulesError,
)
from tests.conformance.principals.questions import rules, subject
from tests.examples import drawn
from tests.harness.kafka.compiled import compiled
from tests.harness.kafka.jars import KafkaUnavailable, class_archive, classpath, java
from tests.harness.kafka.kafka import TEST_JVM_OPTIONS

SUBJECTS = drawn(20_000)
RULES = drawn(20_000)
TIMEOUT_S = 120.0


def java_results(questions: list[list[str]], folder: Path) -> list[list[str | None]]:
    try:
        jars = classpath()
        classes = compiled(Path(__file__).with_name("PrincipalOracle.java"), jars)
    except KafkaUnavailable as reason:
        pytest.skip(f"Apache Kafka cannot be run: {reason}")
    (folder / "questions").write_text("".join(json.dumps(row) + "\n" for row in questions))
    options = [*TEST_JVM_OPTIONS, *class_archive().options, "-Dorg.apache.logging.log4j.level=OFF"]
    command = [java(), *options, "-cp", f"{jars}:{classes}", "PrincipalOracle"]
    subprocess.run(
        [*command, str(folder / "questions"), str(folder / "results")],
        check=True, timeout=TIMEOUT_S, capture_output=True,
    )  # fmt: skip
    with (folder / "results").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_the_name_of_every_subject_is_javas(tmp_path: Path) -> None:
    subjects = [subject(seed) for seed in range(SUBJECTS)]
    theirs = java_results([["name", der.hex()] for der in subjects], tmp_path)
    different = []
    for der, (expected,) in zip(subjects, theirs, strict=True):
        try:
            ours: str | None = x500_name(der)
        except DerError:
            ours = None
        if ours != expected:
            different.append((der.hex(), ours, expected))
    assert not different, (len(different), different[:5])
    assert sum(expected is not None for (expected,) in theirs) > SUBJECTS * 0.9


def test_the_principal_of_every_name_is_kafkas(tmp_path: Path) -> None:
    """Rules that oncelog refuses are left out and counted. oncelog does not support some
    constructs. It refuses a wrong replacement at the start, and Kafka only when the rule first
    matches."""
    cases = [rules(seed) for seed in range(RULES)]
    theirs = java_results([["rules", text, *names] for text, names in cases], tmp_path)
    different: list[tuple[object, ...]] = []
    counts = Counter[str]()
    for (text, names), expected in zip(cases, theirs, strict=True):
        try:
            mapping = PrincipalRules(text)
        except PrincipalRulesError as error:
            if not expected:
                counts["refused by both"] += 1
            elif "not supported" in str(error):
                counts["not supported"] += 1
            elif "the replacement of" in str(error):
                counts["without the group"] += 1
            else:
                different.append((text, str(error), expected))
            continue
        if not expected:
            different.append((text, "accepted", "refused by Kafka"))
            continue
        for name, wanted in zip(names, expected, strict=True):
            found = principal(mapping, name)
            counts["no rule" if wanted is None else "named"] += 1
            if found != wanted:
                different.append((text, name, found, wanted))
    assert not different, (len(different), different[:8])
    assert counts["named"] > RULES
    assert counts["no rule"] > RULES
    assert counts["refused by both"] > RULES / 100
    assert counts["not supported"] < RULES / 10
    assert counts["without the group"] < RULES / 2


def principal(mapping: PrincipalRules, name: str) -> str | None:
    try:
        return mapping.name_of(name)
    except NoRuleApplies:
        return None

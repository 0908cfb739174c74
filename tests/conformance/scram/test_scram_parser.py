"""The arguments of `--add-scram` mean what they mean to Kafka's ScramParser, which runs in the same
test."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from oncelog_server.security.scram_arguments import parse_scram
from tests.examples import drawn
from tests.harness.kafka.compiled import compiled
from tests.harness.kafka.jars import KafkaUnavailable, class_archive, classpath, java
from tests.harness.kafka.kafka import TEST_JVM_OPTIONS

ARGUMENTS: Final = drawn(3_000)
TIMEOUT_S: Final = 120.0
MECHANISMS: Final = (*("SCRAM-SHA-256", "SCRAM-SHA-512") * 6, "SCRAM-SHA-1", "PLAIN", "")
PARTS: Final = (
    *("password=pencil", "password=pass=word", 'password="quoted"', 'password="', "password= x ") ,
    *("iterations=4096", "iterations=+8192", "iterations=16384") * 2,
    *("iterations=4095", "iterations=16385", "iterations=", "iterations=x", "iterations=1_000"),
    *("salt=c2FsdA==", "salt=c2FsdA", 'salt="N3E="') * 2,
    *("salt=*", "salt=c", "saltedpassword=YCE=", "saltedpassword=!", "other=1", "Name=x", "bare"),
    *("", "=", "salt=c2FsdA=", " name=x"),
)  # fmt: skip
# Kafka's errors that show a part of the argument -> the beginning of ours
SHORTENED: Final = (
    "Failed to find equals sign in SCRAM argument",
    "No equals sign found in SCRAM component",
    "Failed to decode given saltedPassword",
    "Failed to decode given salt",
)


def argument(random: Random) -> str:
    parts = [f"name={random.choice(('alice', 'é', 'a b'))}"] * (random.random() < 0.95)
    parts += ["password=pencil"] * (random.random() < 0.6)
    parts += random.sample(PARTS, random.randrange(3))
    random.shuffle(parts)
    brackets = random.choice((*("[]",) * 15, "[", "]", ""))
    text = f"{brackets[:1] if '[' in brackets else ''}{','.join(parts)}"
    text += "]" if "]" in brackets else ""
    equals = "=" if random.random() < 0.97 else ""
    return f"{random.choice(('', '', ' '))}{random.choice(MECHANISMS)}{equals}{text}"


def shown(error: str) -> str:
    return next((text for text in SHORTENED if error.startswith(text)), error)


def ours(text: str, expected: dict[str, Any]) -> dict[str, Any]:
    """Return our outcome for an argument. In place of a random salt, the outcome has the salt of
    `expected`."""
    try:
        parsed = parse_scram(text)
    except ValueError as error:
        return {"error": str(error)}
    credential = parsed.credential(b64decode(expected.get("salt", "")))
    keys = ("salt", "stored", "server")
    values = (b64encode(value).decode() for value in credential[:3])
    return {
        "name": parsed.user,
        "mechanism": int(parsed.mechanism),
        "iterations": credential.iterations,
        **dict(zip(keys, values, strict=True)),
    }


def test_every_argument_means_what_it_means_to_kafka(tmp_path: Path) -> None:
    random = Random(554)
    arguments = [argument(random) for _ in range(ARGUMENTS)]
    try:
        jars = classpath()
        classes = compiled(Path(__file__).with_name("ParserOracle.java"), jars)
    except KafkaUnavailable as reason:
        pytest.skip(f"Apache Kafka cannot be run: {reason}")
    (tmp_path / "in").write_text("".join(json.dumps(each) + "\n" for each in arguments))
    options = [*TEST_JVM_OPTIONS, *class_archive().options]
    main = "org.apache.kafka.metadata.storage.ParserOracle"
    subprocess.run(
        [java(), *options, "-cp", f"{jars}:{classes}", main,
         str(tmp_path / "in"), str(tmp_path / "out")],
        check=True, timeout=TIMEOUT_S, capture_output=True,
    )  # fmt: skip
    theirs = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    accepted = 0
    for text, expected in zip(arguments, theirs, strict=True):
        if "error" in expected:
            expected = {"error": shown(expected["error"])}
        accepted += "error" not in expected
        assert ours(text, expected) == expected, text
    assert 0.2 < accepted / ARGUMENTS < 0.8

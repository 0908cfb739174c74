"""The APIs that the Java client of Apache Kafka 4.3.1 knows, with their versions."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple


class KafkaApi(NamedTuple):
    """An API with its name, and the oldest and the latest version of the Java client."""

    key: int
    name: str
    oldest: int
    latest: int


@cache
def kafka_apis() -> dict[int, KafkaApi]:
    """Return the APIs by key."""
    text = files(__package__).joinpath("apis.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines()[1:])
    apis = (KafkaApi(int(key), name, int(old), int(new)) for key, name, old, new in rows)
    return {api.key: api for api in apis}

"""Random raw requests get the same responses from oncelog and from Apache Kafka: error codes,
messages, values, and null or not."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from tests.conformance.beside import requests_about_records, requests_of_operators
from tests.conformance.beside.requests_about_records import Asked
from tests.conformance.beside.side import Side, now_ms
from tests.harness.broker import Oncelog
from tests.harness.kafka.kafka import Kafka

SEEDS = range(100)

Draws = Callable[[Random, Side], Asked]


@pytest.fixture(scope="module")
def sides(kafka: Kafka, running_oncelog: Oncelog) -> Iterator[tuple[Side, Side]]:
    """Apache Kafka and oncelog with the same topics, records and offsets."""
    prefix, base_ms = f"t-{uuid.uuid4().hex[:8]}", now_ms() - 100_000
    both = (
        Side(kafka.address, prefix, base_ms),
        Side(running_oncelog.address, prefix, base_ms),
    )
    for side in both:
        side.set_up()
    yield both
    for side in both:
        side.wire.socket.close()


@pytest.mark.parametrize(
    "request_",
    [*requests_about_records.REQUESTS, *requests_of_operators.REQUESTS],
    ids=lambda request: request.__name__,
)
def test_a_random_request_gets_kafkas_response(sides: tuple[Side, Side], request_: Draws) -> None:
    """To repeat a seed, run its request alone."""
    for seed in SEEDS:
        (asked, theirs), (_, ours) = (answer(side, request_, seed) for side in sides)
        assert ours == theirs, f"seed {seed}: {asked}"


def answer(side: Side, request: Draws, seed: int) -> tuple[Any, Any]:
    """Return the request of the seed and the response of the broker."""
    asked, version = request(Random(seed), side)
    response = side.wire.call(asked, version)
    return side.plain(asked, version), side.plain(response, version)

"""`oncelog txn blocking --abort ID` ends one transaction, also if a transactional id is a number
that is another transaction's producer id."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from tests.client.cli.conftest import CommandLine
from tests.harness.writing import Identity, batch, new_identity, produce


@pytest.fixture
def wire(here: CommandLine) -> Iterator[Wire]:
    with Wire(here.address) as wire:
        yield wire


@pytest.fixture
def of_producer(here: CommandLine, wire: Wire, name: str) -> Identity:
    """A producer with an open transaction in the topic `name`."""
    here.create(name)
    producer = new_identity(wire, f"{name}-billing")
    begin(wire, name, producer)
    return producer


def begin(wire: Wire, topic: str, producer: Identity) -> None:
    sent = produce(wire, topic, batch(producer, 0), producer=producer)
    assert sent.error_code == ErrorCode.NONE


def still_open(here: CommandLine, topic: str) -> set[str]:
    return {row["transactional_id"] for row in here.json("txn", "blocking", topic)}


@pytest.mark.parametrize("is_open", [False, True])
def test_an_id_of_both_kinds_is_refused(
    here: CommandLine, wire: Wire, name: str, of_producer: Identity, is_open: bool
) -> None:
    number = str(of_producer.producer_id)
    named = new_identity(wire, number)
    opened = {f"{name}-billing"}
    if is_open:
        begin(wire, name, named)
        opened.add(number)
    said = here.refused("txn", "blocking", name, "--abort", number)
    assert f"{number} is a transactional id, and the producer id of a transaction" in said
    assert "Nothing was aborted" in said
    assert still_open(here, name) == opened
    (done,) = here.json("txn", "blocking", name, "--abort", number, "--producer-id")
    assert done["how"] == f"by its coordinator: {name}-billing"
    assert still_open(here, name) == opened - {f"{name}-billing"}
    if is_open:
        (done,) = here.json("txn", "blocking", name, "--abort", number)
        assert done["how"] == f"by its coordinator: {number}"
        assert still_open(here, name) == set()


def test_a_producer_id_needs_no_further_option(
    here: CommandLine, name: str, of_producer: Identity
) -> None:
    number = str(of_producer.producer_id)
    (done,) = here.json("txn", "blocking", name, "--abort", number)
    assert done["how"] == f"by its coordinator: {name}-billing"


def test_the_option_without_abort_is_a_usage_error(here: CommandLine) -> None:
    assert "--producer-id needs --abort" in here.refused("txn", "blocking", "--producer-id")

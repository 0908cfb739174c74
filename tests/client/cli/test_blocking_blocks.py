"""`oncelog txn blocking` on a terminal. It prints the groups that an open transaction holds back,
and for each producer a command that ends its transactions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.testing.wire import Wire
from oncelog_client import Producer
from oncelog_protocol.errors import ErrorCode
from tests.client.cli.conftest import QUICK, CommandLine
from tests.harness.broker import Oncelog
from tests.harness.hanging import VERIFICATION
from tests.harness.writing import batch, new_identity, produce

README = Path(__file__).parents[3] / "README.md"
PARTITIONS = 6


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    settings = QUICK | {VERIFICATION: "false"}
    with Oncelog(tmp_path_factory.mktemp("oncelog"), settings) as broker:
        yield CommandLine(broker.address)


def test_one_command_ends_all_hanging_transactions_of_a_producer(
    here: CommandLine, name: str
) -> None:
    here.create(name, partitions=PARTITIONS)
    with Wire(here.address) as wire:
        producer = new_identity(wire, name, version=2)
        for partition in range(PARTITIONS):
            data = batch(producer, 0)
            sent = produce(wire, name, data, producer=producer, partition=partition, version=9)
            assert sent.error_code == ErrorCode.NONE
    text = here.text("txn", "blocking", name)
    assert text.count("end it") == text.count("Hanging") == 1
    assert f"{name}: {PARTITIONS} partitions (0-5)" in text
    command = f"oncelog txn blocking {name} --abort {producer.producer_id}"
    assert command in text
    here.text(*command.split()[1:])
    assert here.json("txn", "blocking", name) == []


def test_a_group_that_is_already_beyond_the_last_stable_offset_is_not_printed(
    here: CommandLine, name: str
) -> None:
    here.create(name)
    groups = {"waits": "start", "read-uncommitted": "1"}
    with Wire(here.address) as wire:
        producer = new_identity(wire, name)
        assert (
            produce(wire, name, batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
        )
        assert (
            produce(wire, name, batch(producer, 1), producer=producer).error_code == ErrorCode.NONE
        )
        for group, to in groups.items():
            here.text("group", "seek", group, "--topic", name, "--to", to, "--execute")
        text = here.text("txn", "blocking", name)
        (row,) = here.json("txn", "blocking", name)
    here.text("txn", "abort", name)
    assert "waits (1 partition, Empty)" in text
    assert row["waiting_groups"] == ["waits"]


def test_the_readme_shows_the_printed_text(here: CommandLine) -> None:
    here.create("orders", partitions=PARTITIONS)
    here.text("group", "seek", "reporting", "--topic", "orders", "--to", "start", "--execute")

    async def printed() -> str:
        async with Producer(
            here.address, client_id="billing-service", transactional_id="billing-eu-west-1"
        ) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            for partition in range(PARTITIONS):
                await (await producer.send("orders", b"undecided", partition=partition))
            text = await asyncio.to_thread(here.text, "txn", "blocking")
            await producer.abort_transaction()
            return text

    _, _, sample = README.read_text(encoding="utf-8").partition("    $ oncelog txn blocking\n")
    lines = [line[4:] for line in sample.partition("\n\n")[0].splitlines()]
    shown = asyncio.run(printed()).replace(", Empty", "").splitlines()
    # The README leaves out the last line of the output, which is a remark on the command.
    assert _shapes(lines) == _shapes(shown[: len(lines)])


def _shapes(lines: list[str]) -> list[str]:
    """Return the lines without values that differ between runs: numbers and their units."""
    numbers = re.compile(r"[\d.,:]*\d(?: (?:ms|s|m|h|B|KiB)\b)?(?: \d+ s)?")
    return [numbers.sub("N", line) for line in lines]

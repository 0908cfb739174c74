"""A reader of a group commits only the records that it has written. The next member of the group
gets the others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from oncelog_client.cli import consume as consuming
from oncelog_client.consumer import Consumer
from oncelog_client.values import ConsumerRecord
from tests.client.cli.conftest import CommandLine
from tests.client.cli.signalled import command
from tests.client.cli.test_interrupted_waiting import LINES, fill, held, unread

WIDTH = len(LINES[0]) + 1


@pytest.fixture
def filled(here: CommandLine, name: str) -> str:
    """A topic of LINES."""
    here.create(name)
    here.text("produce", name, lines="\n".join(LINES) + "\n")
    return name


def reader(name: str) -> tuple[str, ...]:
    return ("consume", name, "--from-beginning", "--group", name)


def rest(here: CommandLine, name: str, written: int) -> list[str]:
    """Return what the next member of the group prints, if the first `written` lines are written."""
    return here.values(name, "--group", name, count=len(LINES) - written)


def limited(here: CommandLine, name: str, limit: str, path: Path) -> str:
    """Run a reader with a limit of bash, and its output in a file. Return its standard error."""
    call = ("bash", "-c", f'{limit} exec "$@" > {path}', "bash", sys.executable)
    done = subprocess.run(
        (*call, "-m", "oncelog_client.cli", *reader(name)),
        env={**os.environ, "ONCELOG_BOOTSTRAP_SERVER": here.address},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr


def test_the_reader_of_a_pipe_has_ended(here: CommandLine, filled: str) -> None:
    """As `oncelog consume … | head` does."""
    with (
        unread() as (reading, writing),
        command(here.address, *reader(filled), stdout=writing) as process,
        open(os.devnull, "rb") as nothing,
    ):
        fill(reading, process)
        written = held(reading) // WIDTH
        os.dup2(nothing.fileno(), reading)  # closes the only read end
        assert process.wait(timeout=30) == 1
        assert process.stderr is not None
        assert process.stderr.read().decode() == f"{written} records\n"
    assert rest(here, filled, written) == LINES[written:]


def test_a_file_at_its_limit(here: CommandLine, filled: str, tmp_path: Path) -> None:
    path = tmp_path / "out"
    said = limited(here, filled, "ulimit -f 8;", path)
    assert "cannot write to standard output: File too large" in said
    written = path.stat().st_size // WIDTH
    assert 0 < written < len(LINES)
    assert said.startswith(f"{written} records\n")
    assert rest(here, filled, written) == LINES[written:]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_device(here: CommandLine, filled: str) -> None:
    said = limited(here, filled, "", Path("/dev/full"))
    assert "cannot write to standard output: No space left on device" in said
    assert rest(here, filled, 0) == LINES


@pytest.fixture
async def consumer(here: CommandLine, filled: str) -> AsyncIterator[Consumer]:
    settings: dict[str, Any] = {"group_id": filled, "auto_offset_reset": "earliest"}
    async with Consumer(here.address, **settings) as consumer:
        await consumer.subscribe(filled)
        yield consumer


async def test_a_record_that_cannot_be_formatted(
    here: CommandLine, filled: str, consumer: Consumer
) -> None:
    def line(record: ConsumerRecord) -> bytes:
        if record.offset == 7:
            raise ValueError(record.offset)
        return b"x"

    flags = {"max_messages": None, "timeout_ms": None}
    with pytest.raises(ValueError, match="7"):
        await consuming._print(consumer, line, flags, None, consuming.Printed())
    (place,) = consumer.assignment()
    assert await consumer.position(place) == 0

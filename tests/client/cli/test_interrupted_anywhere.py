"""Ctrl-C once or twice at every step of `produce` and `consume`. A step is a line of code or a turn
of the event loop. The command ends within a second, with exit code 130 and without a traceback. The
printed result matches the topic and the group. ONCELOG_INTERRUPTS=100 tries each step, the default
only some steps."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import count

import pytest

from tests.client.cli.conftest import CommandLine
from tests.client.cli.signalled import MOST_S
from tests.client.cli.stepping import Run, Stepper

EVERY_STEP = int(os.environ.get("ONCELOG_INTERRUPTS", "2")) >= 100
SAMPLE = 8
# The number of steps between the first and the second signal, None for a single signal.
AGAIN = (None, 1, 7) if EVERY_STEP else (None, 3)

numbers = count()
pytestmark = pytest.mark.timeout(3600 if EVERY_STEP else 150)


@pytest.fixture(scope="module")
def stepper(here: CommandLine) -> Iterator[Stepper]:
    with Stepper(here.address) as stepper:
        yield stepper


def steps(whole: Run) -> range:
    """Return the steps to try, from a run without a signal."""
    assert whole.code == 0, whole.errors
    assert whole.seen > SAMPLE
    stride = 1 if EVERY_STEP else whole.seen // SAMPLE
    return range(1 + next(numbers) % stride, whole.seen + 1, stride)


def signals(step: int, again: int | None) -> list[int]:
    """Return the steps with a signal. `step` 0 means no signal."""
    return [name for name in (step, again and step + again) if name] if step else []


def ended_well(run: Run, where: str) -> None:
    # If the signal comes after the printed result, the command has ended normally.
    done = run.errors.startswith("3 records") and "interrupted" not in run.errors
    assert run.code == 130 or (run.code == 0 and done), (where, run)
    assert run.took_s < MOST_S, (where, run)
    for word in ("Traceback", "Exception ignored", "Fatal", "defect"):
        assert word not in run.errors, (where, run)


def stated(run: Run) -> tuple[int, int]:
    """Return the least and the largest number of written records, according to the printed result.
    They differ if the command does not know whether some records are written."""
    found = re.search(r"(\d+) records? written", run.errors)
    unknown = re.search(r"(\d+) more records?", run.errors)
    least = int(found[1]) if found else 0
    return least, least + (int(unknown[1]) if unknown else 0)


def read(here: CommandLine, topic: str, *flags: str) -> list[str]:
    text = here.text("consume", topic, "-e", "-f", "%v\\n", *flags)
    return text.splitlines()


@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("kind", ["lines", "turns"])
def test_produce(
    here: CommandLine, stepper: Stepper, name: str, kind: str, again: int | None
) -> None:
    here.create(name)

    def run(step: int) -> Run:
        lines = "".join(f"{step}-{number}\n" for number in range(3))
        return stepper.run(kind, signals(step, again), "produce", name, lines=lines)

    runs = {step: run(step) for step in steps(run(0))}
    for step, ended in runs.items():
        ended_well(ended, f"{kind} {step}")
    said_is_written(runs, read(here, name), exactly=again is None)


@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("kind", ["lines", "turns"])
def test_produce_in_transactions(
    here: CommandLine, stepper: Stepper, name: str, kind: str, again: int | None
) -> None:
    here.create(name)

    def run(step: int) -> Run:
        # Each run has its own transactional id, so that the test finds an open transaction.
        flags = ("--transactional-id", f"{name}-{step}", "--transaction-size", "2")
        lines = "".join(f"{step}-{number}\n" for number in range(3))
        return stepper.run(kind, signals(step, again), "produce", name, *flags, lines=lines)

    runs = {step: run(step) for step in steps(run(0))}
    for step, ended in runs.items():
        ended_well(ended, f"{kind} {step}")
    if again is None:
        here.settled(lambda rows: not _open(rows, name), "transactions", "list")
        written = read(here, name, "--isolation-level", "read_committed")
        said_is_written(runs, written, exactly=True)


def said_is_written(runs: dict[int, Run], values: list[str], *, exactly: bool) -> None:
    for step, ended in runs.items():
        there = [value for value in values if value.startswith(f"{step}-")]
        least, most = stated(ended)
        assert least <= len(there), (step, ended, there)
        # A second signal may end the command before it prints the number of records.
        assert len(there) <= most or not exactly, (step, ended, there)


def _open(rows: list[dict[str, str]], name: str) -> list[dict[str, str]]:
    return [
        row
        for row in rows
        if row["transactional_id"].startswith(name)
        and row["transaction_state"] in {"Ongoing", "PrepareCommit", "PrepareAbort"}
    ]


@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("kind", ["lines", "turns"])
def test_consume_in_a_group(
    here: CommandLine, stepper: Stepper, name: str, kind: str, again: int | None
) -> None:
    here.create(name)
    here.text("produce", name, lines="a\nb\nc\n")

    def run(step: int) -> Run:
        flags = ("--group", f"{name}-{step}", "--from-beginning", "-n", "3")
        return stepper.run(kind, signals(step, again), "consume", name, *flags)

    for step in steps(run(0)):
        ended = run(step)
        ended_well(ended, f"{kind} {step}")
        rows = here.call("groups", "--describe", "--group", f"{name}-{step}", "--json")
        found = re.search(r'"current_offset": ?(\d+)', rows.stdout)
        committed = int(found[1]) if found else 0
        printed = ended.output.count("\n")
        # A second signal may end the command before it commits the offsets of printed records.
        assert committed <= printed, (kind, step, ended, rows.output)
        assert committed == printed or again is not None, (kind, step, ended, rows.output)

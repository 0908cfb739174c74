"""`python -m benchmarks.floods`: the effect of clients that never authenticate on a producer that
sends one message at a time.

The flood is 1,000 silent clients, 1,000 clients that send a byte a second, and 200 TLS handshakes a
second. A round has three parts, in a different order in each round: no flood, a flood against
another broker (the control), and a flood against the broker of the producer. The measured broker
has a core of its own. The clients have the other core; there the flood runs only when the producer
does not. The broker of the control shares the core of the measured broker, and runs only when the
measured broker does not. So the ratio of the two floods shows only what the flood does inside the
broker, and not that clients on the same computer need a processor.

Other programs take time of both cores. `waits` is the share of the time in which the measured
broker could not run. On a busy computer, `--realtime` keeps other programs away.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.beside import Beside
from benchmarks.flood import Flood, Load
from benchmarks.machine import Priority
from oncelog.testing.wire import Wire
from oncelog_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.harness.certificates import Certificates
from tests.harness.driving import taken
from tests.harness.waiting import wait_until
from tests.security.secured_broker import SecuredOncelog

PACED: Final = "paced"
FLOODED: Final = "SASL_SSL"
NOTHING, CONTROL, FLOOD = "no flood", "control", "flood"
WARM_UP_S: Final = 3.0
# A flood with fewer handshakes than this share of its rate is no flood: the computer is too busy.
LEAST_HANDSHAKES: Final = 0.9

# The limits: the ratio of the producer's p99 to the control, the longest stall of the event loop in
# any round, and the growth of the broker's memory.
MUST_RATIO: Final = 2.0
MUST_STALL_MS: Final = 50.0
MUST_GROWTH_MB: Final = 64.0


class Priorities(NamedTuple):
    """`measured`: of the measured broker and of the producer. `others`: of the flood, and of the
    broker of the control."""

    measured: Priority
    others: Priority


USUAL: Final = Priorities(Priority(os.SCHED_OTHER), Priority(os.SCHED_IDLE))
REALTIME: Final = Priorities(Priority(os.SCHED_FIFO, 2), Priority(os.SCHED_FIFO, 1))


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a round. `cpu` is the broker's share of its core, `waits` the share of the time
    in which it waited for its core, both from 0 to 1. `counts` are those of the flood."""

    flooded: str
    messages: int
    p50_ms: float
    p99_ms: float
    longest_ms: float
    stall_ms: float
    growth_mb: float
    cpu: float
    waits: float
    seconds: float
    counts: dict[str, int] = field(default_factory=dict)


class Floods:
    """The measured broker, and another one as the control, each with a listener of every
    protocol."""

    def __init__(
        self,
        measured: SecuredOncelog,
        other: SecuredOncelog,
        client_core: int,
        load: Load,
        priorities: Priorities,
    ) -> None:
        self._measured = measured
        self._targets = {CONTROL: other, FLOOD: measured}
        self._client_cores = frozenset({client_core})
        self._load = load
        self._priorities = priorities
        self._idle_bytes = 0

    def measure(self, rounds: int, seconds: float) -> Iterator[list[Part]]:
        """Yield the parts of each round, in the order NOTHING, CONTROL, FLOOD."""
        with ExitStack() as stack:
            with (
                machine.on_cores(self._client_cores),
                machine.with_priority(self._priorities.measured),
            ):
                beside = stack.enter_context(Beside(self._plain, PACED))
            beside.during(lambda: time.sleep(WARM_UP_S))
            self._idle_bytes = machine.resident_bytes(self._measured.pid)
            parts = [NOTHING, CONTROL, FLOOD]
            for number in range(rounds):
                turn = number % len(parts)
                found = [
                    self._part(flooded, beside, seconds) for flooded in parts[turn:] + parts[:turn]
                ]
                yield sorted(found, key=lambda part: parts.index(part.flooded))

    @property
    def _plain(self) -> str:
        return f"127.0.0.1:{self._measured.ports['PLAINTEXT']}"

    def _part(self, flooded: str, beside: Beside, seconds: float) -> Part:
        target = self._targets.get(flooded)
        if target is None:
            return self._during(flooded, beside, seconds)
        before = taken(target.pid).descriptors
        address = f"127.0.0.1:{target.ports[FLOODED]}"
        others = self._priorities.others
        with Flood(address, self._load, self._client_cores, others) as flood:
            part = self._during(flooded, beside, seconds)
        wait_until(lambda: taken(target.pid).descriptors <= before, "the flood is disconnected")
        return replace(part, counts=dict(flood.counts))

    def _during(self, flooded: str, beside: Beside, seconds: float) -> Part:
        pid = self._measured.pid
        cpu_s, waited_s = machine.cpu_seconds(pid), _waited_s(pid)
        took_s, found = beside.during(lambda: time.sleep(seconds))
        return Part(
            flooded,
            found.messages,
            found.p50 * 1000,
            found.p99 * 1000,
            found.longest * 1000,
            found.stall * 1000,
            (machine.resident_bytes(pid) - self._idle_bytes) / (1 << 20),
            (machine.cpu_seconds(pid) - cpu_s) / took_s,
            (_waited_s(pid) - waited_s) / took_s,
            took_s,
        )


def _waited_s(pid: int) -> float:
    """Return the time for which the main thread of a process could run, but had no core."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


@dataclass(frozen=True, slots=True)
class Result:
    """All rounds, each with its parts. `handshakes_per_s` is the rate of the flood."""

    rounds: list[list[Part]]
    handshakes_per_s: int

    @property
    def ratios(self) -> list[float]:
        """Return the ratio of the p99 under the flood to that of the control, for each round."""
        return [flood.p99_ms / control.p99_ms for _, control, flood in self.rounds]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def stall_ms(self) -> float:
        return max(flood.stall_ms for *_, flood in self.rounds)

    @property
    def growth_mb(self) -> float:
        return max(flood.growth_mb for *_, flood in self.rounds)

    @property
    def misses(self) -> list[str]:
        """Return a text for each limit that the result exceeds."""
        limits = (
            ("ratio", self.ratio, MUST_RATIO),
            ("stall, ms", self.stall_ms, MUST_STALL_MS),
            ("memory, MiB", self.growth_mb, MUST_GROWTH_MB),
        )
        found = [
            f"{name}: {found:.1f}, must be at most {most:.0f}"
            for name, found, most in limits
            if found > most
        ]
        if min(self.rates, default=0) < LEAST_HANDSHAKES * self.handshakes_per_s:
            rates = ", ".join(f"{rate:.0f}" for rate in self.rates)
            found.append(f"handshakes a second: {rates}; the computer is too busy")
        return found

    @property
    def rates(self) -> list[float]:
        """Return the handshakes a second of each flood."""
        floods = [part for parts in self.rounds for part in parts if part.flooded != NOTHING]
        return [part.counts["completed"] / part.seconds for part in floods]


HEADINGS: Final = (
    "round", "part", "p50 ms", "p99 ms", "max ms", "stall ms", "memory MiB", "cpu %", "waits %",
    "handshakes", "failed", "connected again", "p99 / control",
)  # fmt: skip


def lines(result: Result) -> Iterator[list[str]]:
    """Yield the rows of the table."""
    for number, (parts, ratio) in enumerate(zip(result.rounds, result.ratios, strict=True), 1):
        for part in parts:
            yield [
                str(number),
                part.flooded,
                *(f"{ms:.2f}" for ms in (part.p50_ms, part.p99_ms, part.longest_ms, part.stall_ms)),
                f"{part.growth_mb:.1f}",
                f"{part.cpu * 100:.1f}",
                f"{part.waits * 100:.1f}",
                *(
                    str(part.counts.get(name, 0))
                    for name in ("completed", "failed", "connected again")
                ),
                f"{ratio:.2f}" if part.flooded == FLOOD else "",
            ]


def show(result: Result, *, as_markdown: bool) -> None:
    """Print the table, and the figures that have limits."""
    if as_markdown:
        print("| " + " | ".join(HEADINGS) + " |\n|" + "---|" * len(HEADINGS))
        for line in lines(result):
            print("| " + " | ".join(line) + " |")
    else:
        table = Table(*HEADINGS)
        for line in lines(result):
            table.add_row(*line)
        Console(width=160).print(table)
    print(
        f"p99 under the flood / control: median {result.ratio:.2f} (must {MUST_RATIO:.0f}); "
        f"longest stall {result.stall_ms:.1f} ms (must {MUST_STALL_MS:.0f}); "
        f"memory +{result.growth_mb:.1f} MiB (must {MUST_GROWTH_MB:.0f})"
    )
    for miss in result.misses:
        print(f"missed: {miss}")


def run(
    folder: Path,
    rounds: int,
    seconds: float,
    load: Load,
    priorities: Priorities,
    say: Callable[[str], None],
) -> Result:
    """Start both brokers, and measure."""
    broker_core, client_core = sorted(machine.all_cores())[:2]
    certificates = Certificates(folder)
    machine.allow_open_files(2 * (load.silent + load.trickling) + 1_000)
    with ExitStack() as stack:
        with machine.on_cores({broker_core}):
            measured, other = (
                stack.enter_context(SecuredOncelog(folder / name, certificates))
                for name in ("measured", "other")
            )
        priorities.measured.give(measured.pid)
        priorities.others.give(other.pid)
        with Wire(measured.address) as wire:
            (created,) = wire.call(
                CreateTopicsRequest([CreatableTopic(PACED, 1, 1)], timeout_ms=10_000), 7
            ).topics
            assert not created.error_code, created
        found: list[list[Part]] = []
        floods = Floods(measured, other, client_core, load, priorities)
        for parts in floods.measure(rounds, seconds):
            found.append(parts)
            _, control, flood = parts
            say(f"round {len(found)}: p99 {flood.p99_ms:.2f} ms, control {control.p99_ms:.2f} ms")
    return Result(found, load.handshakes_per_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rounds. Return 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floods", description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=15.0, help="the length of each part")
    parser.add_argument(
        "--realtime",
        action="store_true",
        help="schedule all processes of the measurement before others; needs root",
    )
    for name, number in Load()._asdict().items():
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=int, default=number, help=f"default: {number}")
    parser.add_argument("--directory", help="the folder of the brokers' data; not on a tmpfs")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--json", type=Path, help="write the measured values to this file")
    args = parser.parse_args(arguments)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="oncelog-floods-", dir=args.directory) as folder:
        priorities = REALTIME if args.realtime else USUAL
        load = Load(args.silent, args.trickling, args.handshakes_per_s)
        result = run(Path(folder), args.rounds, args.seconds, load, priorities, say)
    show(result, as_markdown=args.markdown)
    if args.json is not None:
        args.json.write_text(json.dumps(asdict(result), indent=1) + "\n")
    return int(bool(result.misses))


if __name__ == "__main__":
    sys.exit(main())

"""The load of small requests on a broker with a thousand access rules, and on the same broker
without an authorizer, in turns."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from benchmarks import machine
from benchmarks.bench import Bench, Cores, Figures, Round
from benchmarks.generated import of_requests
from benchmarks.generated import small as small_requests
from benchmarks.targets import Target

# A round is this many pairs of short runs. The order within a pair alternates, so that a drift of
# the computer affects both brokers.
PAIRS: Final = 4
# The figures that a round adds up over its runs.
_SUMMED: Final = ("answers", "all_answers", "seconds", "broker_cpu_s")
_SMALL: Final = small_requests(per_request=1)


@contextmanager
def small(bench: Bench) -> Iterator[Round]:
    """The load `small`. Only oncelog has the figures `kept`, the rate with access rules divided by
    that without them, and `plain_cpu_us`, the broker's CPU time per request without them."""
    plain = bench.target.plain
    if plain is None:
        with _SMALL(bench) as run:
            yield run
        return
    brief = replace(bench.pace, seconds=bench.pace.seconds / PAIRS)
    without = Bench(Target(f"{bench.target.name}-plain", plain), brief, bench.folder)
    with plain, ExitStack() as both:
        with_rules = both.enter_context(_SMALL(replace(bench, pace=brief)))
        without_rules = both.enter_context(_SMALL(without))

        def run_pairs(cores: Cores) -> Figures:
            machine.pin(plain.pid, os.sched_getaffinity(bench.target.pid))
            sums = dict.fromkeys(_SUMMED, 0.0), dict.fromkeys(_SUMMED, 0.0)
            for number in range(PAIRS):
                pair = list(zip((with_rules, without_rules), sums, strict=True))
                for run, total in pair if number % 2 == 0 else reversed(pair):
                    figures = run(cores)
                    for name in _SUMMED:
                        total[name] += figures[name]
            found, base = map(of_requests, sums)
            kept = found["per_s"] / base["per_s"]
            return found | {"kept": kept, "plain_cpu_us": base["cpu_us"]}

        yield run_pairs

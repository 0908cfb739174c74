"""The load of small requests on a broker with a thousand access rules, and on the same broker
without an authorizer, in turns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from statistics import median
from typing import Final

from benchmarks import machine
from benchmarks.bench import Bench, Cores, Figures, Round
from benchmarks.generated import of_requests
from benchmarks.generated import small as small_requests
from benchmarks.targets import Target
from tests.harness.broker import Oncelog
from tests.harness.kafka.kafka import Kafka

# The first requests of a new process, which are not measured.
_WARM_UP_S: Final = 0.5
# The turns of a pair of brokers: 0 is the broker with access rules, 1 the broker without.
_TURNS: Final = (0, 1, 1, 0, 1, 0, 0, 1)
# The figures that a round adds up over its runs.
_SUMMED: Final = ("answers", "all_answers", "seconds", "broker_cpu_s")
_SMALL: Final = small_requests(per_request=1)


@contextmanager
def small(bench: Bench) -> Iterator[Round]:
    """The load `small`. Only oncelog has the figures `kept`, the rate with access rules divided by
    that without them, and `plain_cpu_us`, the broker's CPU time per request without them.

    A round has several pairs of brokers, and `kept` is the median of their quotients. Each pair has
    new processes: two processes of the same program differ by up to 5 %, because their memory is at
    other addresses. The runs of a pair are short and in the order `_TURNS`, so that a drift of the
    computer affects both brokers.
    """
    plain = bench.target.plain
    if plain is None:
        with _SMALL(bench) as run:
            yield run
        return
    without = Target(f"{bench.target.name}-plain", plain)
    with plain, ExitStack() as loads:

        def both(seconds: float) -> list[Round]:
            pace = replace(bench.pace, seconds=seconds)
            return [
                loads.enter_context(_SMALL(Bench(target, pace, bench.folder)))
                for target in (bench.target, without)
            ]

        runs = both(2 * bench.pace.seconds / bench.pace.pairs / len(_TURNS))
        warm_ups = both(_WARM_UP_S)

        def run_pairs(cores: Cores) -> Figures:
            sums = dict.fromkeys(_SUMMED, 0.0), dict.fromkeys(_SUMMED, 0.0)
            quotients: list[float] = []
            broker_cores = os.sched_getaffinity(bench.target.pid)
            for _ in range(bench.pace.pairs):
                _renew((bench.target.broker, plain), broker_cores)
                for warm_up in warm_ups:
                    warm_up(cores)
                rates = [0.0, 0.0]
                for at in _TURNS:
                    figures = runs[at](cores)
                    rates[at] += of_requests(figures)["per_s"]
                    for name in _SUMMED:
                        sums[at][name] += figures[name]
                quotients.append(rates[0] / rates[1])
            found, base = map(of_requests, sums)
            return found | {"kept": median(quotients), "plain_cpu_us": base["cpu_us"]}

        yield run_pairs


def _renew(brokers: Iterable[Oncelog | Kafka], cores: Cores) -> None:
    """Replace the process of each broker by a new one on these cores."""
    for broker in brokers:
        broker.stop()
        with machine.on_cores(cores):
            broker.start()

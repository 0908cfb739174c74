"""The limits that the project sets for itself. Each row (a measured figure) has a limit for each
placement (the processor cores that the broker may use).

A must (such a limit) counts as met only if the worst of three runs meets it:
`python -m benchmarks --compare`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from benchmarks.lifecycle import GROWTH_OF
from benchmarks.loads import LOADS_OF
from benchmarks.rows import ROWS
from benchmarks.setups import TLS
from benchmarks.table import Better, Judged, Row
from benchmarks.targets import AGAINST, KAFKA

PINNED: Final = "pinned"
UNPINNED: Final = "unpinned"


class Must(NamedTuple):
    """The limits of a row, for a broker pinned to one core and for a broker that may use all
    cores."""

    pinned: float | None = None
    unpinned: float | None = None


OVER_TLS: Final = tuple(row.name for row in ROWS if row.load in {**LOADS_OF[TLS], **GROWTH_OF[TLS]})
"""The rows of loads over TLS. oncelog must be at least as good as Apache Kafka in each of them."""

MUSTS: Mapping[str, Must] = {
    "start.first_answer_ms": Must(1 / 10),
    "start.idle_mb": Must(1 / 6),
    "memory.loaded_mb": Must(1 / 10),
    "small.per_s": Must(1.4, 0.95),
    "small8.per_s": Must(1.4, 0.95),
    "single.p50_us": Must(0.85, 0.95),
    "single.p99_us": Must(1.0),
    "produce16k.mb_per_s": Must(1.5),
    "produce1m.mb_per_s": Must(1.4),
    "fetch1m.mb_per_s": Must(1.0, 0.9),
    "rd100.per_s": Must(1.0),
    "rd1k.per_s": Must(1.0),
    "rd1k.cpu_s_per_gb": Must(0.9),
    "consume1k.cpu_s_per_gb": Must(0.8, 0.8),
    "javaconsume1k.cpu_s_per_gb": Must(0.8, 0.8),
    "acl1000.kept": Must(0.97, 0.97),
    **{name: Must(1.0, 1.0) for name in OVER_TLS},
    "rdtxn.per_s": Must(1.15),
    "txn1.per_s": Must(1.15),
    "txn1.retries": Must(0, 0),
    "txn16.per_s": Must(4.0, 4.0),
    "txn16.p99_us": Must(0.13, 0.13),
    "txn16.cpu_us": Must(0.33, 0.33),
    "txn1v1.per_s": Must(1.15),
    "lost.at_100_ms": Must(5),
    "lost.at_10_ms": Must(25),
    "partitions.slower": Must(1.5),
    "producers.slower": Must(1.5),
    "idle.slower": Must(1.5),
    "compaction.slower": Must(2.0),
}
"""The limits in a comparison with Apache Kafka. They limit the quotient oncelog / Kafka, or
oncelog's own figure in rows that are `Judged.OWN`."""

SPIN: Final = "oncelog.spin.us"
"""The setting that makes the broker poll before it sleeps. Kafka has no such setting and always
sleeps."""

MUSTS_SPINNING: Mapping[str, Must] = {"single.p50_us": Must(0.6, 0.6)}
"""The limits that differ if SPIN is set."""

NO_WORSE: Final = 0.03
"""The share by which a row may be worse than in another checkout."""

AIMS_AGAINST: Mapping[str, float] = {"small8.cpu_us": 0.7}
"""The aims in a comparison with a checkout of 2026-11-23, by row."""


def rows_of(place: str, baseline: str, settings: Mapping[str, str]) -> list[Row]:
    """Return the rows with their limits in the placement `place`, in a comparison with the broker
    `baseline`. `settings`: the settings of oncelog from the option `--set`."""
    spinning = {} if settings.get(SPIN, "0") == "0" else MUSTS_SPINNING
    musts = {**MUSTS, **spinning}
    # A limit with SPIN is stricter than the row's aim, so the aim is left out.
    rows = [replace(row, aim=None) if row.name in spinning else row for row in ROWS]
    return [_LIMITS[baseline](row, place, musts) for row in rows]


def _beside_kafka(row: Row, place: str, musts: Mapping[str, Must]) -> Row:
    must = musts.get(row.name, Must())
    return replace(row, must=must._asdict()[place])


def _beside_checkout(row: Row, place: str, musts: Mapping[str, Must]) -> Row:
    if row.judged is Judged.OWN:
        return _beside_kafka(row, place, musts)
    no_worse = 1 - NO_WORSE if row.better is Better.HIGHER else 1 + NO_WORSE
    return replace(row, must=no_worse, aim=AIMS_AGAINST.get(row.name))


_LIMITS = {KAFKA: _beside_kafka, AGAINST: _beside_checkout}

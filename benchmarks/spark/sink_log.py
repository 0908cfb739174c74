"""The figures of our sink for each micro-batch, from its log, which `workers/sitecustomize.py`
turns on: the time and the round trips of its driver, and the time of its longest task."""

from __future__ import annotations

import re
import statistics
from typing import Final

_ROUND_TRIPS = r"(?P<round_trips>\d+) round trips, (?P<ms>[\d.]+) ms"
_PLANNED: Final = re.compile(rf"sink \S+: planned, {_ROUND_TRIPS}")
_COMMITTED: Final = re.compile(rf"committed, tasks took (?P<tasks>[\d+]+) ms, {_ROUND_TRIPS}")

FIGURES: Final = (
    "plan ms",
    "plan round trips",
    "longest task ms",
    "commit ms",
    "commit round trips",
)


def sink_figures(log: str, counted: int) -> dict[str, float]:
    """Return medians over the last `counted` micro-batches of the log, or no figures if the log has
    no micro-batch."""
    planned = list(_PLANNED.finditer(log))[-counted:]
    committed = list(_COMMITTED.finditer(log))[-counted:]
    if not planned or not committed:
        return {}
    tasks = [float(max(map(int, match["tasks"].split("+")))) for match in committed]
    values: tuple[list[float], ...] = (
        [float(match["ms"]) for match in planned],
        [float(match["round_trips"]) for match in planned],
        tasks,
        [float(match["ms"]) for match in committed],
        [float(match["round_trips"]) for match in committed],
    )
    return {name: statistics.median(of) for name, of in zip(FIGURES, values, strict=True)}

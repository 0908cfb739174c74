"""The result file of a run: every round, with the date, the computer and the measured code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bench import Figures
from benchmarks.musts import rows_of
from benchmarks.table import Result, results
from benchmarks.targets import AGAINST, KAFKA

Measured = Mapping[str, Mapping[str, list[Figures]]]
"""The figures of each round, by load and broker."""


class UnreadableDocument(Exception):
    """A file is not a result of the bench. The message has the reason."""


@dataclass(frozen=True, slots=True)
class Document:
    """One run. `commits`: the commits of oncelog, by the broker's name. `settings`: those of the
    option `--set`."""

    when: str
    is_quick: bool
    kafka_version: str
    machine: Mapping[str, str | int]
    commits: Mapping[str, str]
    settings: Mapping[str, str]
    rounds: Mapping[str, Measured]
    """The figures of each placement ("pinned", "unpinned")."""

    @property
    def baselines(self) -> list[str]:
        """Return the brokers to compare oncelog with: Kafka and the other checkout, each if it ran,
        or Kafka if neither ran."""
        loads = [load for of_place in self.rounds.values() for load in of_place.values()]
        ran = {name for load in loads for name in load}
        return [name for name in (KAFKA, AGAINST) if name in ran] or [KAFKA]

    def results(self, place: str, baseline: str) -> list[Result]:
        """Return the rows of a placement, compared with the broker `baseline`."""
        return results(rows_of(place, baseline, self.settings), self.rounds[place], baseline)

    @property
    def all_results(self) -> list[Result]:
        """Return the rows of every placement, compared with every baseline."""
        return [
            result
            for place in self.rounds
            for baseline in self.baselines
            for result in self.results(place, baseline)
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "when": self.when,
            "quick": self.is_quick,
            "kafka_version": self.kafka_version,
            "machine": dict(self.machine),
            "commits": dict(self.commits),
            "settings": dict(self.settings),
            "tables": {
                place: {
                    baseline: [found.as_json() for found in self.results(place, baseline)]
                    for baseline in self.baselines
                }
                for place in self.rounds
            },
            "rounds": self.rounds,
        }


def write(document: Document, path: Path) -> None:
    """Write a run: the medians, and every round."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document.as_json(), indent=1) + "\n")


def read(path: Path, kind: type[Document] = Document) -> Document:
    """Return a run from its file. The tables are computed from the rounds, not read. `kind` is the
    class of the file's document. Raises UnreadableDocument."""
    try:
        found = json.loads(path.read_text())
        return kind(
            found["when"],
            found["quick"],
            found["kafka_version"],
            found["machine"],
            found["commits"],
            found["settings"],
            found["rounds"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnreadableDocument(f"{path} is no result of the bench: {error!r}") from None

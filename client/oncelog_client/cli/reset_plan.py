"""The CSV files of `--export` and `--from-file`, in the format of kafka-consumer-groups
(CsvUtils): `topic,partition,offset` for a single `--group`, else
`group,topic,partition,offset`."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import TYPE_CHECKING, Final

import click

from oncelog_client.cli.names import INT32_MAX, INT64_MAX
from oncelog_client.values import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

NewOffsets = dict[TopicPartition, int]

WITHOUT_GROUP: Final = "topic,partition,offset"
WITH_GROUP: Final = "group,topic,partition,offset"
_WITH_GROUP_COLUMNS: Final = 4


def plan_text(plan: Mapping[str, NewOffsets], *, single: bool) -> str:
    """Return the lines of a plan: group -> new offsets. With `single`, the plan is that of a single
    `--group`, and the lines leave the group out (exportOffsetsToCsv)."""
    import csv  # only for these options

    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group, offsets in plan.items():
        for place, offset in sorted(offsets.items()):
            writer.writerow([*([] if single else [group]), *place, offset])
    return text.getvalue()


def read_plan(path: Path, single: str | None) -> dict[str, NewOffsets]:
    """Return the plan in a file: group -> new offsets. `single` is the group of a single `--group`.
    All lines are of this group if the first line has no group (parseResetPlan).

    Raises click.UsageError with the number of an invalid line, and for a file that is not UTF-8.
    """
    import csv

    plan: dict[str, NewOffsets] = {}
    default: str | None = None
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = ((number, row) for number, row in enumerate(csv.reader(file), 1) if row)
            for at, (number, row) in enumerate(rows):
                if at == 0 and len(row) != _WITH_GROUP_COLUMNS:
                    default = single
                group, place, offset = _line(path, number, row, default)
                plan.setdefault(group, {})[place] = offset
    except UnicodeDecodeError as error:
        raise click.UsageError(f"--from-file {path}: not text in UTF-8 ({error.reason})") from None
    except csv.Error as error:
        raise click.UsageError(f"--from-file {path}: {error}") from None
    return plan


def _line(
    path: Path, number: int, row: list[str], default: str | None
) -> tuple[str, TopicPartition, int]:
    try:
        group, topic, partition, offset = row if default is None else [default, *row]
        place, at = TopicPartition(topic, int(partition)), int(offset)
    except ValueError:
        group, place, at = "", TopicPartition("", -1), -1
    if not place.topic or not 0 <= place.partition <= INT32_MAX or not 0 <= at <= INT64_MAX:
        text = ",".join(row)[:80]
        form = WITH_GROUP if default is None else WITHOUT_GROUP
        raise click.UsageError(f"--from-file {path}, line {number}: {text!r} is not {form}")
    return group, place, at

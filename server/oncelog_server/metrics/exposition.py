"""The text format of metrics (Prometheus exposition format 0.0.4).

A page is an iterator of lines, so that it can be made in slices: 10,000 partitions have 70,000
lines."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from oncelog_server.slices import Steps, marked

T = TypeVar("T")

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# A slice of this many lines takes at most half a millisecond.
LINES_PER_SLICE: Final = 100
# Yielded in place of a line. It adds nothing to the page, but counts as a line of the slice. It
# follows work that takes about as long as a line.
WORK: Final = ""


class _Turn(str):
    __slots__ = ()


# Like WORK, but ends the slice, because the work took as long as a whole slice. Compared by
# identity.
TURN: Final = _Turn()

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
SUMMARY: Final = "summary"

_ESCAPED: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_ESCAPED_HELP: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


class Metric(msgspec.Struct, frozen=True):
    """One row of the table: `kind` is COUNTER, GAUGE or SUMMARY, `labels` are the names of its
    labels. A summary also has the label `quantile`."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()

    def head(self) -> str:
        """Return the HELP and the TYPE line, which come before the samples."""
        text = self.help.translate(_ESCAPED_HELP)
        return f"# HELP {self.name} {text}\n# TYPE {self.name} {self.kind}\n"

    def line(self, value: float, *labels: str) -> str:
        """Return the line of one sample. Raises ValueError if a label is missing."""
        return f"{self.name}{label_text(self.labels, labels)} {value}\n"

    def summary(
        self, quantiles: Mapping[str, float], total: float, count: int, *labels: str
    ) -> Iterator[str]:
        """Yield the lines of a summary: its quantiles, and the sum and number of all values."""
        for quantile, value in quantiles.items():
            names = label_text((*self.labels, "quantile"), (*labels, quantile))
            yield f"{self.name}{names} {value}\n"
        names = label_text(self.labels, labels)
        yield f"{self.name}_sum{names} {total}\n"
        yield f"{self.name}_count{names} {count}\n"

    def only(self, value: float) -> Iterator[str]:
        """Yield the lines of a metric without labels."""
        yield self.head()
        yield self.line(value)


def label_text(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Return `{topic="a",partition="0"}`; "" without labels."""
    if not names and not values:
        return ""
    pairs = (
        f'{name}="{value.translate(_ESCAPED)}"' for name, value in zip(names, values, strict=True)
    )
    return f"{{{','.join(pairs)}}}"


def as_work(steps: Steps[T]) -> Generator[str, None, T]:
    """Run the steps and return their result. Yield WORK after each step."""
    return marked(steps, WORK)


def slices(lines: Iterable[str], size: int = LINES_PER_SLICE) -> Iterator[bytes]:
    """Yield the page in portions of `size` lines, each short enough for one turn of the loop."""
    portion: list[str] = []
    for line in lines:
        if line is not TURN:
            portion.append(line)
        if line is TURN or len(portion) >= size:
            yield "".join(portion).encode()
            portion.clear()
    yield "".join(portion).encode()

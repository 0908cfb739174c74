"""`python -m oncelog_server.observe.document > docs/metrics.md`: the table of metrics as a page."""

from __future__ import annotations

import sys
from typing import Final

from oncelog_server.metrics import table as metrics
from oncelog_server.metrics.exposition import Metric

_INTRODUCTION: Final = """\
# Metrics

This page answers: which metrics does a broker have, and which of them say why readers stand still?

`oncelog serve --set oncelog.metrics.port=9404` (for the image: `ONCELOG_METRICS_PORT=9404`)
responds to `GET /metrics` in the text format of Prometheus; without the setting no port is open.
The figures are read at the scrape from state that the broker holds anyway, in slices between which
requests are served: a scrape of 10,000 partitions delays no request.

Names that begin with `kafka_` are those that the usual JMX exporter gives to Kafka's own metrics
(its example configuration for Kafka), so that dashboards made for Kafka fit; after the same work
they show the same figures (`tests/conformance/test_metrics.py`). `oncelog_` is what Kafka does not
have. Counters begin at 0 when the broker starts, and a topic's when it is created; metrics by topic
have no line for all topics together.

A client that reaches the port can read the names of topics: `oncelog.metrics.host` binds it to one
address.

What to look at when readers with `read_committed` stand still:
"""

# The question, and the metric or command that responds to it.
_QUESTIONS: Final = (
    (
        "Does a transaction hold them back, and where?",
        f"`{metrics.LAST_STABLE_OFFSET_LAG.name}` above 0 for long",
    ),
    (
        "Is it alive?",
        f"`{metrics.OLDEST_TRANSACTION.name}`, "
        f'`{metrics.OPEN_TRANSACTIONS.name}{{state="Ongoing"}}`',
    ),
    (
        "Are its markers missing?",
        f'`{metrics.OPEN_TRANSACTIONS.name}{{state="Hanging"}}`, '
        f"`{metrics.LATE_TRANSACTIONS.name}`",
    ),
    (
        "Is it decided, but cannot complete?",
        f"`{metrics.MARKERS_PENDING.name}` above 0 for long",
    ),
    (
        "Which producer has it open, and how can it be ended?",
        "`oncelog transactions blocking <topic>`",
    ),
)


def document() -> str:
    """Return the page."""
    questions = [f"| {question} | {answer} |\n" for question, answer in _QUESTIONS]
    return "".join(
        (
            _INTRODUCTION,
            "\n| question | look at |\n|---|---|\n",
            *questions,
            "\n| name | type | labels | |\n|---|---|---|---|\n",
            *map(_row, metrics.METRICS),
        )
    )


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |\n"


if __name__ == "__main__":
    sys.stdout.write(document())

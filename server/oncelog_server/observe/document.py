"""`python -m oncelog_server.observe.document > docs/metrics.md`: the table of metrics as a page."""

from __future__ import annotations

import sys
from typing import Final

from oncelog_server.observe import metrics
from oncelog_server.observe.exposition import Metric

_INTRODUCTION: Final = """\
# Metrics

`oncelog serve --set oncelog.metrics.port=9404` (for the image: `ONCELOG_METRICS_PORT=9404`)
answers `GET /metrics` in the text form of Prometheus; without the setting nobody listens. Every
figure is read from what the broker holds anyway when somebody asks, in slices between which
requests are served: a scrape of 10,000 partitions holds up nobody.

Names that begin with `kafka_` are those that the usual JMX exporter gives to Kafka's own metrics
(its example configuration for Kafka), so that dashboards made for Kafka fit; after the same work
they show the same figures (`tests/conformance/test_metrics.py`). `oncelog_` is what Kafka does not
have. Counters begin at 0 when the broker starts, and a topic's when it is created; figures by topic
have no line for all of them together.

Who reaches the port may read the names of topics: `oncelog.metrics.host` binds it to one address.

What to look at when readers with `read_committed` stand still:
"""

# What is asked then, and who answers it.
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
        "Did its markers get lost?",
        f'`{metrics.OPEN_TRANSACTIONS.name}{{state="Hanging"}}`, '
        f"`{metrics.LATE_TRANSACTIONS.name}`",
    ),
    (
        "Is it decided, and cannot be finished?",
        f"`{metrics.MARKERS_PENDING.name}` above 0 for long",
    ),
    ("Who is it, and how can it be ended?", "`oncelog transactions blocking <topic>`"),
)


def document() -> str:
    """The whole page."""
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

"""`python -m oncelog_server.observe.document > docs/metrics.md`: the table of metrics as a page."""

from __future__ import annotations

import sys
from typing import Final

from oncelog_server.metrics import table as metrics
from oncelog_server.metrics.exposition import Metric

_INTRODUCTION: Final = """\
# Metrics

This page answers: which metrics does a broker have, and which of them show why readers wait?

`oncelog serve --set oncelog.metrics.port=9404` (for the image: `ONCELOG_METRICS_PORT=9404`)
responds to `GET /metrics` in the text format of Prometheus; without the setting no port is open. A
scrape reads the figures from the broker's state, in slices. The broker serves requests between two
slices: a scrape delays a request by a few milliseconds only.

`kafka_` names are those of the JMX exporter with its example configuration for Kafka, so dashboards
for Kafka work. After the same work, Kafka and oncelog show the same figures
(`tests/conformance/test_metrics.py`). Kafka does not have the metrics with `oncelog_` names.
Counters begin at 0 when the broker starts. If a topic is deleted and created again, its counters
begin at 0 again. Metrics by topic have no line for all topics together.

`dashboards/*.json` are dashboards for Grafana (overview, transactions, groups, broker): import them
and choose the data source. `alerts/oncelog.rules.yml` is a rule file for Prometheus; each alert has
a page in [runbooks](runbooks.md).

The same port has health checks. `GET /health/live` gets 200 as long as the event loop serves
requests. `GET /health/ready` gets 200 if clients can use the broker, and 503 with the reason while
groups or transactions are still being loaded, the broker stops, or its metadata store (etcd) has
not responded for a session. Both refuse connections until the logs are open. The health check of
the image needs no port for metrics ([image.md](image.md#compose-files-and-health-checks)).

Every client that can connect to the port can read the names of topics and groups.
`oncelog.metrics.host` binds the port to one address.

If readers with `read_committed` wait, look at:
"""

# The questions of an operator, each with the metric or command to look at.
_QUESTIONS: Final = (
    (
        "Does a transaction hold readers back, and in which partition?",
        f"`{metrics.LAST_STABLE_OFFSET_LAG.name}` above 0 for long",
    ),
    (
        "How old is the transaction?",
        f"`{metrics.OLDEST_TRANSACTION.name}`, "
        f'`{metrics.OPEN_TRANSACTIONS.name}{{state="Ongoing"}}`',
    ),
    (
        "Are markers of the transaction missing?",
        f'`{metrics.OPEN_TRANSACTIONS.name}{{state="Hanging"}}`, '
        f"`{metrics.LATE_TRANSACTIONS.name}`",
    ),
    (
        "Is the transaction decided, but not complete?",
        f"`{metrics.OLDEST_DECISION.name}`, `{metrics.MARKERS_PENDING.name}`",
    ),
    (
        "Are requests slow, and is the disk or the event loop the cause?",
        f'`{metrics.TOTAL_TIME.name}{{quantile="0.99"}}`, beside `{metrics.FLUSH_TIME.name}` and '
        f"`{metrics.LOOP_LAG.name}`",
    ),
    (
        "Which producer opened the transaction, and how can it be ended?",
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

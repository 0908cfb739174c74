"""`python -m oncelog_server.observe.alerts > alerts/oncelog.rules.yml`: the alerts for
Prometheus."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from oncelog_server.metrics import table as metrics

CRITICAL: Final = "critical"
WARNING: Final = "warning"
PAGES: Final = "docs/runbooks"
# 80 % of the default of transaction.max.timeout.ms.
OLD_S: Final = 720
OLD_TWO_PHASE_S: Final = 3600
INCOMPLETE_S: Final = 60
FREE_SHARE: Final = 0.1
CERTIFICATE_DAYS: Final = 7
FENCES_A_MINUTE: Final = 1
LATE_LOOP_MS: Final = 100


class Alert(NamedTuple):
    """A row of the table. The alert fires when `expression` has had a value for `minutes`. `page`
    is its runbook, `<page>.md` in PAGES."""

    name: str
    expression: str
    minutes: int
    severity: str
    summary: str
    page: str


_IS_TWO_PHASE: Final = f"{metrics.TWO_PHASE_TRANSACTIONS.name} > 0"

ALERTS: Final = (
    Alert(
        "OncelogDown",
        'up{job="oncelog"} == 0',
        1,
        CRITICAL,
        "{{ $labels.instance }} does not respond to a scrape",
        "down",
    ),
    Alert(
        "OncelogPartitionOffline",
        f"{metrics.OFFLINE_COUNT.name} > 0",
        1,
        CRITICAL,
        "{{ $value }} partitions of {{ $labels.instance }} are offline",
        "partition-offline",
    ),
    # Each broker reports the number of the whole cluster, so the alert takes the maximum.
    Alert(
        "OncelogPartitionsWithoutLeader",
        f"max({metrics.OFFLINE_PARTITIONS.name}) > 0",
        1,
        CRITICAL,
        "{{ $value }} partitions of the cluster have no leader",
        "partitions-without-leader",
    ),
    Alert(
        "OncelogMetadataStoreSilent",
        f"{metrics.STORE_SILENCE.name} > 0",
        1,
        CRITICAL,
        "the metadata store does not respond to {{ $labels.instance }}",
        "metadata-store-silent",
    ),
    Alert(
        "OncelogBelowMinIsr",
        f"{metrics.UNDER_MIN_ISR_COUNT.name} > 0",
        1,
        CRITICAL,
        "{{ $value }} partitions of {{ $labels.instance }} take no record with acks=all",
        "below-min-isr",
    ),
    Alert(
        "OncelogUnderReplicated",
        f"{metrics.UNDER_REPLICATED_COUNT.name} > 0",
        10,
        WARNING,
        "{{ $value }} partitions of {{ $labels.instance }} lack replicas in sync",
        "under-replicated",
    ),
    Alert(
        "OncelogDiskAlmostFull",
        f"{metrics.DISK_FREE.name} / ({metrics.DISK_SIZE.name} > 0) < {FREE_SHARE}",
        5,
        CRITICAL,
        "{{ $value | humanizePercentage }} of the disk of {{ $labels.instance }} are free",
        "disk-almost-full",
    ),
    # The series exists only for listeners with TLS.
    Alert(
        "OncelogCertificateExpires",
        f"{metrics.CERTIFICATE_EXPIRY.name} - time() < {CERTIFICATE_DAYS * 86_400}",
        5,
        WARNING,
        "the certificate of {{ $labels.listener }} on {{ $labels.instance }} expires in"
        " {{ $value | humanizeDuration }}",
        "certificate-expires",
    ),
    # The last stable offset does not move, although records are there. The range has several
    # samples also with Prometheus' default interval of a minute: a single sample never changes.
    Alert(
        "OncelogReadersHeldBack",
        f"{metrics.LAST_STABLE_OFFSET_LAG.name} > 0"
        f" and changes({metrics.LAST_STABLE_OFFSET.name}[5m]) == 0",
        1,
        WARNING,
        "{{ $labels.topic }}-{{ $labels.partition }}: {{ $value }} offsets wait for a transaction",
        "readers-held-back",
    ),
    Alert(
        "OncelogHangingTransaction",
        f'{metrics.OPEN_TRANSACTIONS.name}{{state="Hanging"}} > 0',
        5,
        CRITICAL,
        "no coordinator knows {{ $value }} open transactions on {{ $labels.instance }}",
        "hanging-transaction",
    ),
    Alert(
        "OncelogOldTransaction",
        f"{metrics.OLDEST_TRANSACTION.name} > {OLD_S} unless {_IS_TWO_PHASE}",
        0,
        WARNING,
        "a transaction on {{ $labels.instance }} is open for {{ $value | humanizeDuration }}",
        "old-transaction",
    ),
    Alert(
        "OncelogTwoPhaseTransactionOpen",
        f"{metrics.OLDEST_TRANSACTION.name} > {OLD_TWO_PHASE_S} and {_IS_TWO_PHASE}",
        1,
        WARNING,
        "a two-phase transaction on {{ $labels.instance }} may be open for"
        " {{ $value | humanizeDuration }}",
        "two-phase-transaction-open",
    ),
    # The age, because the number of markers in flight is above 0 whenever the cluster is busy.
    Alert(
        "OncelogMarkersPending",
        f"{metrics.OLDEST_DECISION.name} > {INCOMPLETE_S}",
        1,
        WARNING,
        "a decided transaction on {{ $labels.instance }} is incomplete for"
        " {{ $value | humanizeDuration }}",
        "markers-pending",
    ),
    Alert(
        "OncelogProducersFenced",
        f"sum by (instance, cause) (rate({metrics.FENCED.name}[5m])) * 60 > {FENCES_A_MINUTE}",
        5,
        WARNING,
        "{{ $value | humanize }} producers a minute are fenced ({{ $labels.cause }})",
        "producers-fenced",
    ),
    Alert(
        "OncelogLoopLag",
        f'{metrics.LOOP_LAG.name}{{quantile="0.99"}} > {LATE_LOOP_MS}',
        5,
        WARNING,
        "the event loop of {{ $labels.instance }} is {{ $value }} ms late",
        "loop-lag",
    ),
    Alert(
        "OncelogLogUncleanable",
        f"{metrics.UNCLEANABLE.name} > 0",
        15,
        WARNING,
        "{{ $value }} logs of {{ $labels.instance }} cannot be compacted",
        "log-uncleanable",
    ),
)


def document() -> str:
    """Return the file of the rules."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield f"# Alerts for Prometheus, each with a page in {PAGES}. The job of the scrape is named"
    yield "# `oncelog` (docker/templates/prometheus.yaml)."
    yield "groups:"
    yield "  - name: oncelog"
    yield "    rules:"
    for alert in ALERTS:
        # A JSON text is a YAML text too.
        yield f"      - alert: {alert.name}"
        yield f"        expr: {json.dumps(alert.expression)}"
        yield f"        for: {alert.minutes}m"
        yield "        labels:"
        yield f"          severity: {alert.severity}"
        yield "        annotations:"
        yield f"          summary: {json.dumps(alert.summary)}"
        yield f"          runbook_url: {PAGES}/{alert.page}.md"


if __name__ == "__main__":
    sys.stdout.write(document())

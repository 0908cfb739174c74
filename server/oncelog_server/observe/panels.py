"""The panels of the dashboards for Grafana, with their expressions for Prometheus."""

from __future__ import annotations

from typing import Final, NamedTuple

from oncelog_server.metrics import table as metrics
from oncelog_server.metrics.exposition import Metric

# Grafana puts its own values in place of these names.
INSTANCE: Final = 'instance=~"$instance"'
INTERVAL: Final = "$__rate_interval"
_AN_ERROR: Final = 'error!="NONE"'
# The number of topics, groups or clients in a panel.
_TOP: Final = 10


class Query(NamedTuple):
    """A PromQL expression, and the text of its lines (`{{label}}`)."""

    expression: str
    legend: str = ""


class Panel(NamedTuple):
    """A graph. `unit` is Grafana's name of the unit."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    description: str = ""


class Dashboard(NamedTuple):
    """A page of panels, in the file `<name>.json`."""

    name: str
    title: str
    panels: tuple[Panel, ...]


def _of(metric: Metric, *labels: str) -> str:
    """Return a selector of a metric, for the chosen brokers."""
    return f"{metric.name}{{{', '.join((INSTANCE, *labels))}}}"


def _rate(metric: Metric, *labels: str) -> str:
    return f"rate({_of(metric, *labels)}[{INTERVAL}])"


def _quantile(metric: Metric, quantile: str) -> str:
    return _of(metric, f'quantile="{quantile}"')


def _single(metric: Metric, title: str, unit: str = "short", legend: str = "{{instance}}") -> Panel:
    """Return the panel of a metric without labels, or with the labels of `legend`."""
    return Panel(title, (Query(_of(metric), legend),), unit, metric.help)


_HELD_BACK: Final = Panel(
    "Held back by open transactions",
    (
        Query(
            f"topk({_TOP}, max by (topic, partition) ({_of(metrics.LAST_STABLE_OFFSET_LAG)}))",
            "{{topic}}-{{partition}}",
        ),
    ),
    description="Offsets that read_committed readers cannot get yet.",
)
_LAG: Final = Panel(
    "Lag of groups",
    (
        Query(
            f"topk({_TOP}, sum by (consumergroup, topic) ({_of(metrics.GROUP_LAG)}))",
            "{{consumergroup}} {{topic}}",
        ),
    ),
    description=metrics.GROUP_LAG.help,
)
_OPEN: Final = Panel(
    "Open transactions",
    (Query(f"sum by (state) ({_of(metrics.OPEN_TRANSACTIONS)})", "{{state}}"),),
    description=metrics.OPEN_TRANSACTIONS.help,
)
_OLDEST: Final = _single(metrics.OLDEST_TRANSACTION, "Oldest open transaction", "s")
_REQUEST_TIME: Final = Panel(
    "Time of requests, p99",
    (Query(f"max by (request) ({_quantile(metrics.TOTAL_TIME, '0.99')})", "{{request}}"),),
    "ms",
    metrics.TOTAL_TIME.help,
)
_ERRORS: Final = Panel(
    "Error codes in responses",
    (
        Query(
            f"sum by (request, error) ({_rate(metrics.ERRORS, _AN_ERROR)})",
            "{{request}} {{error}}",
        ),
    ),
    "ops",
)
_DISK: Final = Panel(
    "Free disk space",
    (Query(f"{_of(metrics.DISK_FREE)} / {_of(metrics.DISK_SIZE)}", "{{instance}}"),),
    "percentunit",
    metrics.DISK_FREE.help,
)
_MEMORY: Final = _single(metrics.RESIDENT_BYTES, "Memory", "bytes")
_CPU: Final = Panel(
    "Processor", (Query(_rate(metrics.CPU_SECONDS), "{{instance}}"),), "percentunit"
)

DASHBOARDS: Final = (
    Dashboard(
        "overview",
        "oncelog: overview",
        (
            Panel(
                "Records in",
                (Query(f"sum by (topic) ({_rate(metrics.MESSAGES_IN)})", "{{topic}}"),),
                "ops",
            ),
            Panel(
                "Bytes in",
                (Query(f"sum by (topic) ({_rate(metrics.BYTES_IN)})", "{{topic}}"),),
                "Bps",
            ),
            Panel(
                "Bytes out",
                (Query(f"sum by (topic) ({_rate(metrics.BYTES_OUT)})", "{{topic}}"),),
                "Bps",
            ),
            Panel(
                "Requests",
                (Query(f"sum by (request) ({_rate(metrics.REQUESTS)})", "{{request}}"),),
                "ops",
            ),
            _REQUEST_TIME,
            _ERRORS,
            _HELD_BACK,
            _LAG,
            _OPEN,
            _OLDEST,
            _DISK,
            Panel(
                "Connections by client",
                (
                    Query(
                        f"topk({_TOP}, sum by (clientSoftwareName, clientSoftwareVersion) "
                        f"({_of(metrics.CLIENTS)}))",
                        "{{clientSoftwareName}} {{clientSoftwareVersion}}",
                    ),
                ),
            ),
        ),
    ),
    Dashboard(
        "transactions",
        "oncelog: transactions",
        (
            _OPEN,
            _OLDEST,
            _HELD_BACK,
            Panel(
                "Transactional ids",
                (Query(f"sum by (state) ({_of(metrics.TRANSACTIONAL_IDS)})", "{{state}}"),),
            ),
            Panel(
                "Decided transactions",
                (
                    Query(
                        f"sum by (outcome, cause) ({_rate(metrics.TRANSACTIONS)})",
                        "{{outcome}} {{cause}}",
                    ),
                ),
                "ops",
                metrics.TRANSACTIONS.help,
            ),
            Panel(
                "Fenced producers",
                (Query(f"sum by (cause) ({_rate(metrics.FENCED)})", "{{cause}}"),),
                "ops",
                metrics.FENCED.help,
            ),
            Panel(
                "Requests of fenced producers",
                (Query(f"sum by (cause) ({_rate(metrics.REFUSED)})", "{{cause}}"),),
                "ops",
                metrics.REFUSED.help,
            ),
            _single(metrics.OLDEST_DECISION, "Oldest decided and incomplete transaction", "s"),
            _single(metrics.MARKERS_PENDING, "Markers that are not confirmed"),
            _single(metrics.TWO_PHASE_TRANSACTIONS, "Two-phase transactions"),
            _single(metrics.LATE_TRANSACTIONS, "Partitions with a late transaction"),
            _single(metrics.PRODUCER_ID_COUNT, "Live producer ids"),
            Panel(
                "Refused producer ids",
                (
                    Query(
                        f"sum by (setting) ({_rate(metrics.PRODUCER_IDS_REFUSED)})", "{{setting}}"
                    ),
                ),
                "ops",
                metrics.PRODUCER_IDS_REFUSED.help,
            ),
        ),
    ),
    Dashboard(
        "groups",
        "oncelog: groups",
        (
            Panel(
                "Groups by state",
                tuple(
                    Query(f"sum({_of(metric)})", state)
                    for state, metric in metrics.GROUPS_IN.items()
                ),
            ),
            _single(metrics.GROUP_OFFSETS, "Committed offsets"),
            _LAG,
            Panel(
                "Held back from groups",
                (
                    Query(
                        f"topk({_TOP}, sum by (consumergroup, topic) "
                        f"({_of(metrics.GROUP_HELD_BACK)}))",
                        "{{consumergroup}} {{topic}}",
                    ),
                ),
                description=metrics.GROUP_HELD_BACK.help,
            ),
            _single(metrics.GROUP_LAG_OMITTED, "Offsets without a lag on the page"),
            _single(metrics.GROUP_LOAD_MAX, "Longest load of offsets", "ms"),
        ),
    ),
    Dashboard(
        "broker",
        "oncelog: broker",
        (
            _REQUEST_TIME,
            Panel(
                "Time of requests, median",
                (
                    Query(
                        f"max by (request) ({_quantile(metrics.TOTAL_TIME, '0.50')})", "{{request}}"
                    ),
                ),
                "ms",
            ),
            Panel(
                "Time of a sync",
                tuple(
                    Query(_quantile(metrics.FLUSH_TIME, name), f"p{name[2:]} {{{{instance}}}}")
                    for name in ("0.50", "0.99")
                ),
                "ms",
                metrics.FLUSH_TIME.help,
            ),
            Panel(
                "Delay of the event loop",
                tuple(
                    Query(_quantile(metrics.LOOP_LAG, name), f"p{name[2:]} {{{{instance}}}}")
                    for name in ("0.50", "0.99")
                ),
                "ms",
                metrics.LOOP_LAG.help,
            ),
            _CPU,
            _MEMORY,
            _DISK,
            Panel(
                "Size of logs",
                (Query(f"topk({_TOP}, sum by (topic) ({_of(metrics.LOG_SIZE)}))", "{{topic}}"),),
                "bytes",
            ),
            Panel(
                "Partitions",
                (
                    Query(_of(metrics.PARTITION_COUNT), "{{instance}}"),
                    Query(_of(metrics.OFFLINE_COUNT), "offline {{instance}}"),
                    Query(_of(metrics.UNDER_REPLICATED_COUNT), "under-replicated {{instance}}"),
                    Query(_of(metrics.UNDER_MIN_ISR_COUNT), "below min ISR {{instance}}"),
                    Query(_of(metrics.REASSIGNING_COUNT), "moving {{instance}}"),
                ),
            ),
            Panel(
                "Replication",
                (
                    Query(_rate(metrics.REPLICATED_BYTES_IN), "in {{instance}}"),
                    Query(_rate(metrics.REPLICATED_BYTES_OUT), "out {{instance}}"),
                    Query(_rate(metrics.REASSIGNED_BYTES_IN), "moved in {{instance}}"),
                    Query(_rate(metrics.REASSIGNED_BYTES_OUT), "moved out {{instance}}"),
                ),
                "Bps",
                "What followers fetch, and the part that moves of partitions cause.",
            ),
            _single(metrics.STORE_SILENCE, "Silence of the metadata store", "ms"),
            Panel(
                "Log cleaner",
                (
                    Query(_rate(metrics.COMPACTIONS), "passes {{instance}}"),
                    Query(_of(metrics.UNCLEANABLE), "uncleanable {{instance}}"),
                ),
            ),
            Panel(
                "Connections",
                (Query(f"sum by (listener) ({_of(metrics.CONNECTIONS)})", "{{listener}}"),),
            ),
            _single(metrics.FETCH_SESSIONS, "Fetch sessions"),
        ),
    ),
)

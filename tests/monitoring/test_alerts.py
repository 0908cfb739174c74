"""Each alert fires when it should, and stays silent when it should, as promtool evaluates the
rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from oncelog_server.metrics.table import METRICS
from oncelog_server.observe.alerts import ALERTS, PAGES, document
from tests.harness.debian import DebianUnavailable
from tests.harness.prometheus import program, promtool
from tests.harness.repository import ROOT

RULES = ROOT / "alerts" / "oncelog.rules.yml"
INSTANCE = 'instance="b:1"'


class Case(NamedTuple):
    """Series (name and labels -> values, one a minute), the time in minutes at which the alert is
    evaluated, and its labels if it fires."""

    alert: str
    series: dict[str, str]
    at_minutes: int
    labels: dict[str, str] | None


def series(name: str, *labels: str) -> str:
    return f"{name}{{{','.join((*labels, INSTANCE))}}}"


def constant(value: float) -> str:
    return f"{value}x120"


def gauge(alert: str, name: str, fires: float, silent: float, minutes: int) -> list[Case]:
    """Return the cases of an alert about one gauge without labels."""
    key = series(name)
    return [
        Case(alert, {key: constant(fires)}, minutes, {}),
        Case(alert, {key: constant(silent)}, minutes, None),
        # The alert waits: a short time above the limit is no alert.
        Case(alert, {key: f"{silent}x{minutes} {fires} {silent}x60"}, minutes + 1, None),
    ]


JOB = 'job="oncelog"'
PARTITION = 'topic="t"', 'partition="0"'
LAG = series("kafka_cluster_partition_laststableoffsetlag", *PARTITION)
STABLE = series("oncelog_last_stable_offset", *PARTITION)
FREE, SIZE = series("oncelog_disk_free_bytes"), series("oncelog_disk_size_bytes")
OLDEST = series("oncelog_oldest_transaction_seconds")
TWO_PHASE = series("oncelog_two_phase_transactions")
PENDING = series("oncelog_markers_pending")
DECISION = series("oncelog_oldest_decided_transaction_seconds")
HANGING = series("oncelog_open_transactions", 'state="Hanging"')
ONGOING = series("oncelog_open_transactions", 'state="Ongoing"')
FENCED = series("oncelog_producers_fenced_total", 'cause="new producer"')
EXPIRY = series("oncelog_certificate_expiry_timestamp_seconds", 'listener="SSL"')
LOOP = series("oncelog_loop_lag_ms", 'quantile="0.99"')
# Alerts without an instance, because each broker has the number of the whole cluster.
OF_CLUSTER = {"OncelogPartitionsWithoutLeader"}
LEADERLESS = series("kafka_controller_kafkacontroller_offlinepartitionscount")
WHERE = {"topic": "t", "partition": "0"}

CASES = [
    Case("OncelogDown", {series("up", JOB): "1 1 0x10"}, 5, {"job": "oncelog"}),
    Case("OncelogDown", {series("up", JOB): constant(1)}, 5, None),
    Case("OncelogDown", {series("up", 'job="another"'): constant(0)}, 5, None),
    *gauge("OncelogPartitionOffline", "kafka_server_replicamanager_offlinereplicacount", 1, 0, 3),
    Case("OncelogPartitionsWithoutLeader", {LEADERLESS: constant(1)}, 3, {}),
    Case("OncelogPartitionsWithoutLeader", {LEADERLESS: constant(0)}, 3, None),
    *gauge("OncelogMetadataStoreSilent", "oncelog_metadata_store_silence_ms", 2_000, 0, 3),
    *gauge("OncelogBelowMinIsr", "kafka_server_replicamanager_underminisrpartitioncount", 1, 0, 3),
    *gauge(
        "OncelogUnderReplicated",
        "kafka_server_replicamanager_underreplicatedpartitions",
        1,
        0,
        12,
    ),
    Case("OncelogDiskAlmostFull", {FREE: constant(9), SIZE: constant(100)}, 10, {}),
    Case("OncelogDiskAlmostFull", {FREE: constant(11), SIZE: constant(100)}, 10, None),
    Case("OncelogDiskAlmostFull", {FREE: constant(-1), SIZE: constant(-1)}, 10, None),
    # The time of an evaluation begins at 1970.
    Case("OncelogCertificateExpires", {EXPIRY: constant(604_000)}, 6, {"listener": "SSL"}),
    Case("OncelogCertificateExpires", {EXPIRY: constant(120)}, 6, {"listener": "SSL"}),
    Case("OncelogCertificateExpires", {EXPIRY: constant(608_400)}, 6, None),
    Case("OncelogReadersHeldBack", {LAG: constant(5), STABLE: constant(7)}, 4, WHERE),
    Case("OncelogReadersHeldBack", {LAG: constant(5), STABLE: "7+1x120"}, 4, None),
    Case("OncelogReadersHeldBack", {LAG: constant(0), STABLE: constant(7)}, 4, None),
    # Transactions of three minutes, one after the other.
    Case("OncelogReadersHeldBack", {LAG: constant(5), STABLE: "7 7 7 8 8 8 9x60"}, 5, None),
    Case("OncelogReadersHeldBack", {LAG: constant(5), STABLE: "7 7 7 8 8 8 9x60"}, 13, WHERE),
    Case("OncelogHangingTransaction", {HANGING: constant(1)}, 6, {"state": "Hanging"}),
    Case("OncelogHangingTransaction", {HANGING: constant(0)}, 6, None),
    Case("OncelogHangingTransaction", {ONGOING: constant(1)}, 6, None),
    Case("OncelogOldTransaction", {OLDEST: constant(721), TWO_PHASE: constant(0)}, 1, {}),
    Case("OncelogOldTransaction", {OLDEST: constant(719), TWO_PHASE: constant(0)}, 1, None),
    Case("OncelogOldTransaction", {OLDEST: constant(721), TWO_PHASE: constant(1)}, 1, None),
    Case("OncelogTwoPhaseTransactionOpen", {OLDEST: constant(3601), TWO_PHASE: "1x120"}, 2, {}),
    Case("OncelogTwoPhaseTransactionOpen", {OLDEST: constant(3599), TWO_PHASE: "1x120"}, 2, None),
    Case("OncelogTwoPhaseTransactionOpen", {OLDEST: constant(3601), TWO_PHASE: "0x120"}, 2, None),
    *gauge("OncelogMarkersPending", "oncelog_oldest_decided_transaction_seconds", 61, 60, 3),
    # A busy cluster always has markers in flight.
    Case("OncelogMarkersPending", {PENDING: constant(50), DECISION: constant(0.2)}, 10, None),
    Case("OncelogProducersFenced", {FENCED: "0+2x120"}, 15, {"cause": "new producer"}),
    Case("OncelogProducersFenced", {FENCED: "0+0.5x120"}, 15, None),
    Case("OncelogLoopLag", {LOOP: constant(101)}, 6, {"quantile": "0.99"}),
    Case("OncelogLoopLag", {LOOP: constant(99)}, 6, None),
    *gauge(
        "OncelogLogUncleanable",
        "kafka_log_logcleanermanager_uncleanable_partitions_count",
        1,
        0,
        16,
    ),
]


@pytest.fixture(scope="module", autouse=True)
def _has_promtool() -> None:
    try:
        program("promtool")
    except DebianUnavailable as reason:
        pytest.skip(f"Prometheus cannot be run: {reason}")


def test_promtool_accepts_the_rules() -> None:
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", str(RULES), cwd=ROOT)


def test_every_alert_fires_and_stays_silent_as_its_cases_say(tmp_path: Path) -> None:
    severities = {alert.name: alert.severity for alert in ALERTS}
    tests = []
    for case in CASES:
        expected = []
        if case.labels is not None:
            instance = {} if case.alert in OF_CLUSTER else {"instance": "b:1"}
            labels = {"severity": severities[case.alert], **instance, **case.labels}
            expected = [{"exp_labels": labels}]
        tests.append(
            {
                "interval": "1m",
                "input_series": [
                    {"series": key, "values": values} for key, values in case.series.items()
                ],
                "alert_rule_test": [
                    {
                        "eval_time": f"{case.at_minutes}m",
                        "alertname": case.alert,
                        "exp_alerts": expected,
                    }
                ],
            }
        )
    # promtool compares the texts of an alert too. They depend on values, so they are left out.
    lines = RULES.read_text().splitlines()
    texts = ("annotations:", "summary:", "runbook_url:")
    kept = [line for line in lines if not line.strip().startswith(texts)]
    (tmp_path / "rules.yml").write_text("\n".join(kept))
    content = {"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": tests}
    (tmp_path / "tests.yml").write_text(json.dumps(content))
    assert "SUCCESS" in promtool("test", "rules", "tests.yml", cwd=tmp_path)


def test_every_alert_has_cases_of_both_kinds_and_a_page() -> None:
    for alert in ALERTS:
        fires = {case.labels is not None for case in CASES if case.alert == alert.name}
        assert fires == {True, False}, alert.name
        page = ROOT / PAGES / f"{alert.page}.md"
        assert page.read_text().startswith(f"# {alert.name}\n")
    pages = {path.stem for path in (ROOT / PAGES).iterdir()}
    assert pages == {alert.page for alert in ALERTS}


def test_the_file_is_made_of_the_table() -> None:
    assert RULES.read_text() == document(), (
        "python -m oncelog_server.observe.alerts > alerts/oncelog.rules.yml"
    )


def test_alerts_use_metrics_that_the_broker_has() -> None:
    known = {metric.name for metric in METRICS} | {"up"}
    names = {case_series.partition("{")[0] for case in CASES for case_series in case.series}
    assert names <= known

"""The table of metrics: names that Prometheus accepts, and the page made from it."""

from __future__ import annotations

import re

from oncelog_server.metrics.exposition import COUNTER, GAUGE, SUMMARY
from oncelog_server.metrics.table import METRICS
from oncelog_server.observe.document import document
from tests.harness.repository import ROOT


def test_every_name_is_unique_and_begins_with_its_origin() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for name in names:
        assert re.fullmatch(r"(kafka|oncelog|process)_[a-z0-9_]+", name), name


def test_counters_and_only_they_end_in_total() -> None:
    for metric in METRICS:
        assert metric.kind in (COUNTER, GAUGE, SUMMARY), metric.name
        assert metric.name.endswith("_total") == (metric.kind == COUNTER), metric.name


def test_every_metric_has_a_help_sentence_and_labels_that_prometheus_accepts() -> None:
    for metric in METRICS:
        assert metric.help.endswith("."), metric.name
        assert all(re.fullmatch(r"[a-zA-Z]+", label) for label in metric.labels), metric.name


def test_the_metrics_of_kip_98_exist() -> None:
    """Live producer ids, last stable offset by partition, active transactional ids."""
    assert {
        "kafka_server_replicamanager_produceridcount",
        "oncelog_last_stable_offset",
        "kafka_cluster_partition_laststableoffsetlag",
        "oncelog_transactional_ids",
    } <= {metric.name for metric in METRICS}


def test_the_page_is_made_of_the_table() -> None:
    text = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    assert text == document(), "python -m oncelog_server.observe.document > docs/metrics.md"

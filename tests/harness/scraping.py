"""Reads a page of metrics as Prometheus does."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

from oncelog_server.metrics.exposition import CONTENT_TYPE
from tests.harness.broker import Oncelog

PORT = {"oncelog.metrics.port": "0", "oncelog.metrics.host": "127.0.0.1"}

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Scraped:
    """The samples of a page. `value("name", label="x")` raises KeyError for a missing sample."""

    def __init__(self, page: str) -> None:
        self.types: dict[str, str] = {}
        self._samples: Samples = {}
        for family in text_string_to_metric_families(page):
            assert family.name not in self.types, f"{family.name} twice"
            self.types[family.name] = family.type
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in self._samples, f"{sample} twice"
                self._samples[key] = sample.value

    def value(self, metric: str, **labels: str) -> float:
        return self._samples[metric, frozenset(labels.items())]

    def labels(self, metric: str) -> list[dict[str, str]]:
        """Return the labels of every sample of a metric."""
        return [dict(labels) for name, labels in self._samples if name == metric]

    def names(self) -> set[str]:
        return {name for name, _ in self._samples}


def scraped(lines: Iterable[str]) -> Scraped:
    return Scraped("".join(lines))


def metrics_url(broker: Oncelog) -> str:
    """Return the address of the metrics port, which the broker's log events contain."""
    lines = broker.log.read_text().splitlines()
    events = [json.loads(line) for line in lines if line.startswith("{")]
    address = [event["address"] for event in events if event["event"] == "metrics"][-1]
    return f"http://{address}"


def scrape(broker: Oncelog) -> Scraped:
    """Read the page of metrics."""
    with urllib.request.urlopen(f"{metrics_url(broker)}/metrics", timeout=60) as response:
        assert response.headers["Content-Type"] == CONTENT_TYPE
        return Scraped(response.read().decode())

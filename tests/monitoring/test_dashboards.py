"""No panel of a dashboard is empty: Prometheus reads a loaded broker, and every expression of every
panel has a value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest

from oncelog.testing.wire import Wire
from oncelog_server.observe.dashboards import document
from oncelog_server.observe.panels import DASHBOARDS, Dashboard
from tests.harness.broker import Oncelog
from tests.harness.debian import DebianUnavailable
from tests.harness.driving import create
from tests.harness.prometheus import Prometheus, program
from tests.harness.repository import ROOT
from tests.harness.scraping import PORT, metrics_url
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    Identity,
    batch,
    end_transaction,
    find_coordinator,
    init_producer_id,
    new_identity,
    produce,
)

DASHBOARD_NAMES = [dashboard.name for dashboard in DASHBOARDS]


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=DASHBOARD_NAMES)
def test_the_files_are_made_of_the_tables(dashboard: Dashboard) -> None:
    text = (ROOT / "dashboards" / f"{dashboard.name}.json").read_text()
    assert text == document(dashboard), "python -m oncelog_server.observe.dashboards dashboards"


def test_every_dashboard_has_a_file_and_the_reverse() -> None:
    files = sorted(path.stem for path in (ROOT / "dashboards").iterdir())
    assert files == sorted(DASHBOARD_NAMES)


def expressions() -> Iterator[tuple[str, str]]:
    """Yield (panel, expression) of every file, with values in place of Grafana's variables."""
    for path in sorted((ROOT / "dashboards").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                expression = target["expr"].replace("$__rate_interval", "1m")
                yield f"{path.stem}: {panel['title']}", expression.replace("$instance", ".*")


def work(address: str) -> None:
    """Cause a value in every metric: records, transactions, fences, errors, groups, a lag."""
    with Wire(address) as wire:
        first = new_identity(wire, "id")
        assert produce(wire, "t", batch(first, 0), producer=first).error_code == 0
        second = new_identity(wire, "id")
        init_producer_id(wire, "id", current=first)
        assert produce(wire, "t", batch(second, 0), producer=second).error_code == 0
        assert end_transaction(wire, second, commit=True).error_code == 0
        open_one = new_identity(wire, "open")
        assert produce(wire, "t", batch(open_one, 0), producer=open_one).error_code == 0
        unknown = produce(wire, "missing", batch(Identity(-1, -1), -1))
        assert unknown.error_code != 0
        assert produce(wire, "t", batch(Identity(10**9, 0), 0)).error_code != 0
        find_coordinator(wire, "g", 0)
    consumer = ck.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe(["t"])
    wait_until(lambda: consumer.poll(0.2) is not None, "a record")
    consumer.commit(asynchronous=False)
    consumer.close()


@pytest.fixture
def prometheus_programs() -> None:
    try:
        program("prometheus")
    except DebianUnavailable as reason:
        pytest.skip(f"Prometheus cannot be run: {reason}")


def test_no_panel_is_empty(prometheus_programs: None, tmp_path: Path) -> None:
    with Oncelog(tmp_path / "broker", PORT) as broker:
        with Wire(broker.address) as wire:
            create(wire, "t")
        target = metrics_url(broker).removeprefix("http://")
        with Prometheus(tmp_path / "prometheus", target) as prometheus:
            empty: dict[str, str] = {}

            def all_have_values() -> bool:
                # A rate needs two scrapes with different values.
                work(broker.address)
                empty.clear()
                for panel, expression in expressions():
                    found: list[dict[str, Any]] = prometheus.query(expression)
                    if not found:
                        empty[panel] = expression
                return not empty

            try:
                wait_until(all_have_values, "every panel has a value")
            except AssertionError:
                assert empty == {}
                raise

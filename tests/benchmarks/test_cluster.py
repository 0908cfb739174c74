"""The bench of clusters itself works: short rounds against oncelog alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import machine
from benchmarks.cluster.clusters import oncelog
from tests.harness.repository import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the bench needs Linux")


@pytest.mark.usefixtures("etcd_program")
def test_the_figures_of_a_cluster_include_the_exit_monitors(tmp_path: Path) -> None:
    with oncelog(tmp_path, machine.all_cores(), {}, members=1) as cluster:
        brokers = {broker.pid for broker in cluster.brokers.values()}
        monitors = {*cluster.pids} - brokers - {*cluster.others}
        assert len(monitors) == len(brokers)


@pytest.mark.usefixtures("etcd_program")
def test_a_quick_run_measures_requests_transactions_and_a_stop(tmp_path: Path) -> None:
    written = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks.cluster", "--quick", "--targets", "oncelog"]
    command += ["--etcd", "1", "--places", "unpinned", "--json", str(written)]
    command += ["--rows", "small offered produce1m txn16 stop catchup memory"]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert "catching up after a stop" in outcome.stdout
    (rounds,) = json.loads(written.read_text())["rounds"].values()
    for name in ("small", "offered", "produce1m", "txn16", "stop", "catchup", "memory"):
        ((figures,),) = rounds[name].values()
        assert all(value > 0 for value in figures.values()), (name, figures)

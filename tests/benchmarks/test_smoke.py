"""The bench itself works: a short round against oncelog alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import machine
from benchmarks.acls import RULES, count_rules
from benchmarks.batches import a_batch
from benchmarks.bench import QUICK
from benchmarks.lifecycle import measure_growth
from benchmarks.loadgen import LoadFailed, run_connector, run_loadgen
from benchmarks.requests import api_versions, produce, write_entries
from benchmarks.rings import Content, producer_ring, ring
from benchmarks.setups import ACLS, TLS
from benchmarks.targets import AGAINST, ONCELOG, Target, oncelog
from oncelog.testing.wire import Wire
from oncelog_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.harness.broker import Oncelog
from tests.harness.repository import ROOT
from tests.harness.writing import new_identity

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the bench needs Linux")


def test_a_quick_run_measures_requests_transactions_and_librdkafka(tmp_path: Path) -> None:
    written = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--targets", "oncelog"]
    command += [
        "--against",
        str(ROOT),
        "--places",
        "unpinned",
        "--rows",
        "small8 idem8 txn16p8 rd1k acl1000 tlssmall rdtlsconsume1k tlsresume memory",
        "--json",
        str(written),
    ]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert "transactions over 8 partitions" in outcome.stdout
    rows = {
        f"{row['load']}.{row['figure']}": row
        for row in json.loads(written.read_text())["tables"]["unpinned"][AGAINST]
    }
    for name in (
        "small8.per_s",
        "idem8.cpu_us",
        "txn16p8.per_s",
        "rd1k.per_s",
        "acl1000.kept",
        "tlssmall.cpu_us",
        "rdtlsconsume1k.per_s",
        "tlsresume.resumed",
        "memory.loaded_mb",
    ):
        assert rows[name]["oncelog"] > 0
        assert rows[name]["baseline"] > 0


def test_a_broker_gets_a_thousand_access_rules_and_the_load_may_write(tmp_path: Path) -> None:
    with ACLS.oncelog(tmp_path, {}) as broker:
        target = Target("oncelog", broker)
        ACLS.complete(target.address)
        with target.topic(1) as topic, target.wire() as wire:
            assert count_rules(wire) == RULES
            requests = write_entries(tmp_path / "requests", ring(topic, 1, 1, 1, Content(1, 10)))
            run_loadgen("repeat", target.port, requests, machine.all_cores(), {"seconds": 0.1})


def test_a_load_fails_at_the_first_error_in_a_response(tmp_path: Path) -> None:
    with Oncelog(tmp_path, {"auto.create.topics.enable": "false"}) as broker:
        requests = write_entries(
            tmp_path / "requests", [produce("none", {0: a_batch(1, 10), 1: a_batch(1, 10)})]
        )
        with pytest.raises(LoadFailed, match="error 3"):
            run_loadgen("repeat", broker.port, requests, machine.all_cores(), {"seconds": 0.1})


def test_a_load_fails_at_an_error_of_a_later_partition(tmp_path: Path) -> None:
    with Oncelog(tmp_path) as broker, Target("oncelog", broker).topic(1) as topic:
        entry = produce(topic, {0: a_batch(1, 10), 1: a_batch(1, 10)})
        requests = write_entries(tmp_path / "requests", [entry])
        with pytest.raises(LoadFailed, match="error 3"):
            run_loadgen("repeat", broker.port, requests, machine.all_cores(), {"seconds": 0.1})


def test_each_request_of_a_producer_with_an_id_is_appended(tmp_path: Path) -> None:
    """A broker confirms a duplicate without an append, so wrong sequence numbers would look
    fast."""
    with Oncelog(tmp_path) as broker, Target("oncelog", broker).topic(4) as topic:
        with Wire(broker.address) as wire:
            identities = [new_identity(wire) for _ in range(2)]
        entries = [
            entry
            for at, identity in enumerate(identities)
            for entry in producer_ring(
                topic, range(at * 2, at * 2 + 2), 3, identity, Content(2, 10)
            )
        ]
        requests = write_entries(tmp_path / "requests", entries)
        options = {"seconds": 0.2, "connections": 2, "depth": 4, "steps": 3}
        found = run_loadgen("producers", broker.port, requests, machine.all_cores(), options)
        with Wire(broker.address) as wire:
            written = sum(end_offset(wire, topic, at) for at in range(4))
    assert written == found["all_answers"] * 2 * 2 > 0


def test_each_request_over_tls_is_appended(tmp_path: Path) -> None:
    """The requests fill the socket, so that OpenSSL sends them in parts. A part may have the end of
    a request and the beginning of the next."""
    with TLS.oncelog(tmp_path / "broker", {}) as broker:
        target = Target("oncelog", broker)
        assert target.tls is not None
        with target.topic(2) as topic:
            content = Content(7, 900)
            entries = ring(topic, 2, 1, 3, content)
            requests = write_entries(tmp_path / "requests", entries)
            found = run_loadgen(
                "repeat",
                target.tls.port,
                requests,
                machine.all_cores(),
                {"seconds": 0.5, "connections": 2, "depth": 1_000},
                with_tls=True,
            )
            with target.wire() as wire:
                written = sum(end_offset(wire, topic, at) for at in range(2))
    assert written == found["all_answers"] * content.records > 0


@pytest.mark.parametrize("mode", ["full", "resumed"])
def test_a_new_connection_over_tls_has_the_wanted_handshake(tmp_path: Path, mode: str) -> None:
    with TLS.oncelog(tmp_path / "broker", {}) as broker:
        tls = Target("oncelog", broker).tls
        assert tls is not None
        requests = write_entries(tmp_path / "requests", [api_versions()])
        options = {"seconds": 0.5, "connections": 4}
        found = run_connector(mode, tls.port, requests, machine.all_cores(), options)
    assert found["answers"] > 0
    assert found["resumed"] == (found["answers"] if mode == "resumed" else 0)


def test_the_memory_of_idle_connections_over_tls_is_measured(tmp_path: Path) -> None:
    cores = machine.all_cores()
    found = measure_growth("tlsidle", {ONCELOG: oncelog({})}, tmp_path, QUICK, cores, cores)
    (figures,) = found[ONCELOG]
    assert figures["all_mb"] > figures["kb_each"] * QUICK.connections / 1000 > 0


def end_offset(wire: Wire, topic: str, partition: int) -> int:
    place = ListOffsetsPartition(partition_index=partition, timestamp=-1)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[place])])
    return int(wire.call(request, 6).topics[0].partitions[0].offset)


def test_the_cpu_time_of_a_process_includes_its_threads(tmp_path: Path) -> None:
    """Ended threads count as well, although /proc/PID/task no longer has them."""
    code = (
        "import threading, time\n"
        "def work():\n"
        "    while time.thread_time() < 0.2: pass\n"
        "for _ in range(2):\n"
        "    thread = threading.Thread(target=work)\n"
        "    thread.start(); thread.join()\n"
        "print('done', flush=True); input()\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert 0.4 <= machine.cpu_seconds(process.pid) < 2
        process.communicate(b"\n")


def test_the_processor_time_of_commands_is_measured(tmp_path: Path) -> None:
    written = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks.commands", "--runs", "1", "--json", str(written)]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    # Exit code 1 means a missed limit, for example because other tests run at the same time.
    assert outcome.returncode in {0, 1}, outcome.stderr
    (rows,) = json.loads(written.read_text()).values()
    used_ms = {row["name"]: row["median_ms"] for row in rows}
    assert 0 < used_ms["python -c pass"] < used_ms["topic list"]


def test_the_broker_is_measured_in_its_own_process() -> None:
    command = [sys.executable, "-m", "benchmarks.in_process", "--rounds", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    figures = [line.rpartition(": ") for line in done.stdout.splitlines()]
    assert [name.partition(", ")[2] for name, _, _ in figures] == ["1 partition", "8 partitions"]
    (few, many) = (float(figure.split()[0]) for _, _, figure in figures)
    assert 0 < few < many

"""`oncelog doctor` names each problem and says what to do."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from oncelog_client import Admin, Producer
from oncelog_client.cli import oncelog
from oncelog_client.cli.doctor import SURPRISES
from oncelog_client.cli.partition_checks import min_isrs
from tests.client.cli.conftest import CommandLine
from tests.client.cli.test_nouns import open_transaction
from tests.harness.broker import Oncelog
from tests.harness.driving import damage

QUIET = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "oncelog.flush.on.ack": "true",
}


def examined(address: str, *options: str) -> tuple[int, list[dict[str, Any]]]:
    environment = {"ONCELOG_BOOTSTRAP_SERVER": address, "PYSPARK_PYTHON": sys.executable}
    result = CliRunner().invoke(oncelog, ["doctor", "--json", *options], env=environment)
    return result.exit_code, json.loads(result.stdout)


def states(findings: list[dict[str, Any]]) -> set[str]:
    return {finding["state"] for finding in findings}


def test_a_cluster_in_order_is_all_ok(tmp_path: Path) -> None:
    with Oncelog(tmp_path, QUIET) as broker:
        code, findings = examined(broker.address)
    # The disk check depends on the computer, so the test ignores it.
    assert states([finding for finding in findings if "disk" not in finding["check"]]) == {"ok"}, (
        findings
    )
    assert code == 0
    assert {"Python", "packages", "connection", "broker 1", "Java"} <= {
        finding["check"] for finding in findings
    }


def test_a_single_broker_with_transactions_gets_no_advice_to_add_replicas(tmp_path: Path) -> None:
    """The internal topics of a single broker have one replica, and their min ISR stays Kafka's."""

    async def transact(address: str) -> None:
        async with Producer(address, transactional_id="billing") as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send("t", b"v")

    with Oncelog(tmp_path, QUIET | {"auto.create.topics.enable": "true"}) as broker:
        asyncio.run(transact(broker.address))
        _, findings = examined(broker.address)
    assert [finding for finding in findings if "replicas" in str(finding["to_do"])] == []


def test_a_surprising_setting_is_a_notice_that_says_what_to_do(tmp_path: Path) -> None:
    with Oncelog(tmp_path) as broker:
        code, findings = examined(broker.address)
    notices = {
        finding["found"].split("=")[0]: finding
        for finding in findings
        if finding["check"] == "setting"
    }
    assert set(notices) < {surprise.name for surprise in SURPRISES}
    assert "group.initial.rebalance.delay.ms" in notices
    assert all(notice["to_do"] for notice in notices.values())
    assert code == 0


def test_an_address_that_refuses_connections_is_a_problem(nowhere: str) -> None:
    code, findings = examined(nowhere)
    (problem,) = [finding for finding in findings if finding["state"] == "problem"]
    assert (code, problem["check"]) == (1, "connection")
    assert problem["to_do"]


def test_an_advertised_address_that_clients_cannot_reach_is_a_problem(
    tmp_path: Path, nowhere: str
) -> None:
    listeners = {"advertised.listeners": f"PLAINTEXT://{nowhere}"}
    with Oncelog(tmp_path, QUIET | listeners) as broker:
        code, findings = examined(broker.address, "--give-up-after", "4")
    assert code == 1
    found = " ".join(
        finding["found"] + finding["to_do"] for finding in findings if finding["state"] == "problem"
    )
    assert nowhere in found


def test_an_open_transaction_is_a_notice(tmp_path: Path) -> None:
    with Oncelog(tmp_path, QUIET) as broker:
        CommandLine(broker.address).create("t")
        with open_transaction(broker.address, "t", "opened"):
            code, findings = examined(broker.address)
    (notice,) = [finding for finding in findings if finding["check"] == "open transactions"]
    assert (notice["state"], notice["found"], code) == ("notice", "opened", 0)


def test_two_distributions_of_different_versions_are_a_problem(
    tmp_path: Path, nowhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, version in (("oncelog", "1.2.3"), ("oncelog_client", "1.2.4")):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
        (folder / "METADATA").write_text(metadata)
    monkeypatch.syspath_prepend(str(tmp_path))
    code, findings = examined(nowhere)
    (finding,) = [finding for finding in findings if finding["check"] == "packages"]
    assert (finding["state"], code) == ("problem", 1)
    assert "oncelog 1.2.3, oncelog-client 1.2.4" in finding["found"]
    assert "pip uninstall" in finding["to_do"]


def test_the_text_says_what_to_do_below_each_finding(nowhere: str) -> None:
    result = CliRunner().invoke(oncelog, ["doctor", "--bootstrap-server", nowhere])
    lines = result.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("problem  connection"))
    assert lines[at + 1].strip().startswith("-> ")


def test_a_damaged_log_of_a_running_broker_is_an_offline_replica(tmp_path: Path) -> None:
    """The broker runs, so the advice is not to start it, and no other replica exists."""
    with Oncelog(tmp_path, QUIET) as broker:
        command_line = CommandLine(broker.address)
        command_line.create("bad")
        command_line.text("produce", "bad", lines="a record\n")
        broker.stop()
        # The magic of the first batch.
        damage(broker.data / "bad-0" / f"{0:020}.log", 16)
        broker.start()
        code, findings = examined(broker.address)
        checked = CommandLine(broker.address).call("cluster", "health")
    (problem,) = [finding for finding in findings if finding["state"] == "problem"]
    assert code == 1
    assert problem["check"] == "offline partitions"
    assert problem["found"] == "bad-0 (its replica on broker 1 is offline)"
    assert "its log is damaged" in problem["to_do"]
    assert "oncelog logs verify" in problem["to_do"]
    assert "start the" not in problem["to_do"]
    assert "other replica" not in problem["to_do"]
    assert "bad-0 (its replica on broker 1 is offline)" in checked.stdout


def test_a_topic_that_is_deleted_meanwhile_is_left_out(here: CommandLine) -> None:
    here.create("stays")

    async def found(*topics: str) -> dict[str, int]:
        async with Admin(here.address) as admin:
            return await min_isrs(admin, set(topics))

    assert asyncio.run(found("stays", "deleted")) == {"stays": 1}
    assert asyncio.run(found("deleted")) == {}
    assert asyncio.run(found()) == {}

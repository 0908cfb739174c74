"""`oncelog topic|group|txn|cluster`: a noun, a verb and names, against a running broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest

from oncelog_client import Producer
from oncelog_client.cli.cluster_checks import NOT_CHECKED
from tests.client.cli.conftest import CommandLine, led
from tests.harness.broker import Oncelog

NOUNS = ("topic", "group", "txn", "cluster", "users", "acls")
VERBS = {
    "topic": {"list", "create", "describe", "delete", "offsets", "trim"},
    "group": {"list", "describe", "seek", "delete"},
    "txn": {"list", "blocking", "describe", "abort"},
    "cluster": {
        *("info", "health", "doctor", "brokers", "drain", "rebalance", "strays", "unregister")
    },
    "users": {"list", "add", "remove"},
    "acls": {"list", "add", "remove", "explain"},
}
SCREEN = 40


@contextmanager
def open_transaction(address: str, topic: str, transactional_id: str) -> Iterator[None]:
    """Keep a transaction with one record open in the topic until the end of the block."""
    loop = asyncio.new_event_loop()
    producer = Producer(address, transactional_id=transactional_id)

    async def begin() -> None:
        await producer.start()
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send(topic, b"undecided"))

    async def end() -> None:
        await producer.close()

    loop.run_until_complete(begin())
    try:
        yield
    finally:
        loop.run_until_complete(end())
        loop.close()


def write(command_line: CommandLine, topic: str, *values: str) -> None:
    command_line.text("produce", "--topic", topic, lines="".join(f"{value}\n" for value in values))


def test_a_topic_is_created_described_and_deleted(command_line: CommandLine, name: str) -> None:
    created = command_line.json("topic", "create", name, "-p", "2", "-c", "retention.ms=60000")
    assert created == [{"topic": name, "result": "created"}]
    command_line.settled(led(2), "topic", "describe", name)
    again = command_line.json("topic", "create", name, "--if-not-exists")
    assert again == [{"topic": name, "result": "existed"}]
    assert {"topic": name} in command_line.json("topic", "list")
    write(command_line, name, "a", "b", "c")
    rows = command_line.json("topic", "describe", name)
    assert [row["partition"] for row in rows] == [0, 1]
    assert sum(row["end"] - row["start"] for row in rows) == 3
    assert sum(row["size"] for row in rows) > 0
    assert command_line.json("topic", "delete", name) == [{"topic": name, "result": "deleted"}]
    command_line.settled(lambda rows: {"topic": name} not in rows, "topic", "list")


def test_a_name_after_a_noun_is_not_a_pattern(command_line: CommandLine, topic: str) -> None:
    """`topics --delete --topic '.*'` deletes all topics. After a noun, the same text is only a
    name."""
    said = command_line.refused("topic", "delete", topic, ".*")
    assert "nothing was deleted" in said
    assert {"topic": topic} in command_line.json("topic", "list")


def test_offsets_show_the_last_stable_offset_at_an_open_transaction(
    command_line: CommandLine, name: str
) -> None:
    command_line.create(name)
    write(command_line, name, "a", "b")
    with open_transaction(command_line.address, name, name):
        (row,) = command_line.json("topic", "offsets", name)
        assert row == {"topic": name, "partition": 0, "start": 0, "stable": 2, "end": 3}
    (row,) = command_line.json("topic", "offsets", name, "--at", "-1")
    (end,) = command_line.settled(lambda rows: rows[0]["stable"] == 4, "topic", "offsets", name)
    assert (row["offset"], end["end"]) in {(2, 4), (3, 4)}
    assert command_line.json("topic", "offsets", name, "--at", "@-1h")[0]["offset"] == 0


def test_records_are_deleted_only_when_asked(command_line: CommandLine, name: str) -> None:
    command_line.create(name)
    write(command_line, name, "a", "b", "c")
    shown = command_line.call("topic", "trim", name, "--before", "2")
    assert "nothing was changed" in shown.output
    assert command_line.json("topic", "offsets", name)[0]["start"] == 0
    (row,) = command_line.json("topic", "trim", name, "--before", "2", "--execute")
    assert (row["old_start"], row["new_start"], row["deleted"]) == (0, 2, 2)
    assert command_line.json("topic", "offsets", name)[0]["start"] == 2


def test_the_error_names_a_missing_partition(command_line: CommandLine, topic: str) -> None:
    assert "no partition 7" in command_line.refused("topic", "offsets", topic, "-p", "0-1,7")


def test_a_seek_moves_a_group_and_shows_old_and_new_offsets(
    command_line: CommandLine, name: str
) -> None:
    command_line.create(name)
    write(command_line, name, "a", "b", "c")
    assert command_line.values(name, "--group", name, count=3) == ["a", "b", "c"]
    seek = ("group", "seek", name, "--to", "start")
    shown = command_line.call(*seek)
    assert "nothing was changed" in shown.output
    described = command_line.json("group", "describe", name)
    assert described[0]["current_offset"] == 3
    (row,) = command_line.json(*seek, "--execute")
    assert (row["old_offset"], row["new_offset"], row["distance"]) == (3, 0, -3)
    assert command_line.json("group", "describe", name)[0]["current_offset"] == 0
    (row,) = command_line.json("group", "seek", name, "--to", "-1", "--topic", name, "--execute")
    assert row["new_offset"] == 2


def test_a_seek_copies_the_offsets_of_another_group(command_line: CommandLine, name: str) -> None:
    command_line.create(name)
    write(command_line, name, "a", "b", "c")
    command_line.values(name, "--group", name, count=2)
    other = f"{name}-copy"
    command_line.json("group", "seek", other, "--to-group", name, "--execute")
    (row,) = command_line.json("group", "describe", other)
    assert row["current_offset"] == 2
    assert other in {row["group"] for row in command_line.json("group", "list")}
    command_line.json("group", "delete", other)
    assert other not in {row["group"] for row in command_line.json("group", "list")}


def test_a_seek_needs_exactly_one_valid_target(command_line: CommandLine, name: str) -> None:
    for flags in ((), ("--to", "start", "--to-group", "other"), ("--to", "nowhere")):
        assert command_line.call("group", "seek", name, *flags).exit_code == 2


def test_a_transaction_is_found_and_aborted(command_line: CommandLine, name: str) -> None:
    command_line.create(name)
    with open_transaction(command_line.address, name, name):
        listed = command_line.json("txn", "list", "--state", "Ongoing")
        assert name in {row["transactional_id"] for row in listed}
        assert command_line.json("txn", "describe", name)[0]["transaction_state"] == "Ongoing"
        assert command_line.json("txn", "blocking", name)
        command_line.text("txn", "abort", name)
        command_line.settled(
            lambda rows: rows[0]["stable"] == rows[0]["end"], "topic", "offsets", name
        )


def test_an_abort_without_an_open_transaction_fences_no_producer(
    command_line: CommandLine, name: str
) -> None:
    command_line.create(name)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": command_line.address, "transactional.id": name}
    )
    producer.init_transactions()
    (row,) = command_line.json("txn", "abort", name)
    assert row["result"] == "nothing open (Empty)"
    producer.begin_transaction()
    producer.produce(name, b"a")
    producer.commit_transaction()


def test_cluster_info_shows_the_id_the_controller_and_the_features(
    command_line: CommandLine,
) -> None:
    info = json.loads(command_line.text("cluster", "info", "--json"))
    assert info["cluster_id"]
    assert info["controller"] in {broker["broker"] for broker in info["brokers"]}
    assert info["features"]["transaction.version"] >= 1


def test_the_brokers_of_a_cluster_and_their_partitions(tmp_path: Path, name: str) -> None:
    with Oncelog(tmp_path) as broker:
        command_line = CommandLine(broker.address)
        command_line.create(name, partitions=3)
        (row,) = command_line.json("cluster", "brokers")
        assert (row["broker"], row["port"], row["state"]) == (1, broker.port, "alive")
        assert (row["leads"], row["replicas"], row["out_of_sync"]) == (3, 3, 0)
        assert "stop the broker" in command_line.refused("cluster", "unregister", "1")
        assert "Broker ID 77 is not" in command_line.refused("cluster", "unregister", "77")


def test_the_doctor_and_a_rebalance_work_with_both_brokers(
    command_line: CommandLine, topic: str
) -> None:
    """No check fails with an error, and a single broker has nothing to balance."""
    result = command_line.call("cluster", "doctor", "--json")
    rows = {row["check"]: row for row in json.loads(result.stdout)}
    assert {"metadata store", "partitions below min ISR", "stalled moves"} <= rows.keys()
    assert not [row for row in rows.values() if row["to_do"] == NOT_CHECKED]
    assert command_line.json("cluster", "rebalance") == []
    assert command_line.json("cluster", "rebalance", "--execute") == []
    assert "no other broker is alive" in command_line.refused("cluster", "drain", "1")


def test_health_names_open_transactions_and_waiting_groups(tmp_path: Path, name: str) -> None:
    with Oncelog(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as broker:
        command_line = CommandLine(broker.address)
        command_line.create(name)
        write(command_line, name, "a")
        command_line.values(name, "--group", name, count=1)
        found = {row["check"]: row for row in command_line.json("cluster", "health")}
        assert {row["state"] for row in found.values()} == {"ok"}
        with open_transaction(command_line.address, name, "opened"):
            found = {row["check"]: row for row in command_line.json("cluster", "health")}
        assert found["open transactions"]["what"] == ["opened"]
        assert found["groups held back"]["what"] == [name]
        assert found["offline partitions"]["state"] == "ok"


def test_internal_topics_are_deleted_by_force_only(tmp_path: Path) -> None:
    """The message says what would be lost. A pattern deletes no internal topic, either."""
    with Oncelog(tmp_path) as broker:
        command_line = CommandLine(broker.address)
        command_line.create("t")
        with open_transaction(command_line.address, "t", "opened"):
            pass
        command_line.text("group", "seek", "g", "--to", "start", "--topic", "t", "--execute")
        for topic in ("__consumer_offsets", "__transaction_state"):
            for call in (
                ("topic", "delete", "t", topic),
                ("topic", "delete", "t", topic, "--dry-run"),
                ("topics", "--delete", "--topic", "t|__.*"),
            ):
                said = command_line.refused(*call)
                assert f"with {topic} " in said
                assert "would be lost" in said
                assert "--force" in said
            listed = command_line.json("topic", "list", "--internal")
            assert {"topic": "t"} in listed
            assert {"topic": topic} in listed
            shown = command_line.json("topic", "delete", topic, "--force", "--dry-run")
            assert shown == [{"topic": topic, "result": "would be deleted"}]
            assert {"topic": topic} in command_line.json("topic", "list", "--internal")
        deleted = command_line.json("topic", "delete", topic, "--force")
        assert deleted == [{"topic": topic, "result": "deleted"}]


@pytest.mark.parametrize("noun", NOUNS)
def test_the_help_of_every_verb_has_an_example_and_fits_on_one_screen(noun: str) -> None:
    command_line = CommandLine("127.0.0.1:1")
    text = command_line.text(noun, "--help")
    for verb in VERBS[noun]:
        assert f"  {verb} " in text
        lines = command_line.text(noun, verb, "--help").splitlines()
        assert any(line.strip().startswith(f"oncelog {noun} {verb}") for line in lines), verb
        assert len(lines) <= SCREEN


def test_trim_beyond_the_end_is_refused_and_changes_nothing(
    command_line: CommandLine, name: str
) -> None:
    command_line.create(name, partitions=2)
    command_line.text("produce", name, "-p", "0", lines="a\nb\nc\n")
    for execute in ((), ("--execute",)):
        said = command_line.refused("topic", "trim", name, "--before", "2", *execute)
        assert f"OFFSET_OUT_OF_RANGE: {name}-1 ends at offset 0, 2 is beyond" in said
    (first, _) = command_line.json("topic", "offsets", name)
    assert first["start"] == 0


@pytest.mark.parametrize("noun", ["topic", "group", "txn", "transactions"])
def test_the_output_option_may_stand_before_the_verb(command_line: CommandLine, noun: str) -> None:
    def names(*arguments: str) -> list[set[str]]:
        return [set(row) for row in json.loads(command_line.text(noun, *arguments))]

    behind = command_line.text(noun, "list", "--output", "csv").splitlines()
    assert command_line.text(noun, "--output", "csv", "list").splitlines()[0] == behind[0]
    assert names("--output", "json", "list") == names("list", "--output", "json")
    assert isinstance(json.loads(command_line.text(noun, "--json", "list")), list)
    # An option after the verb overrides the option before it.
    json.loads(command_line.text(noun, "--output", "csv", "list", "--json"))


def test_only_partitions_chooses_partitions(command_line: CommandLine, name: str) -> None:
    command_line.create(name, partitions=3)
    wanted = command_line.json("topic", "offsets", name, "--only-partitions", "0,2")
    assert [row["partition"] for row in wanted] == [0, 2]
    for former in ("-p", "--partitions"):
        assert command_line.json("topic", "offsets", name, former, "0,2") == wanted
    shown = command_line.text("topic", "offsets", "--help")
    assert "--only-partitions" in shown
    assert "--partitions" not in shown


@pytest.mark.parametrize("name_of_topic", ["bad name", "..", "x" * 250])
def test_the_error_for_an_invalid_topic_name_states_the_rule(
    command_line: CommandLine, name_of_topic: str
) -> None:
    said = command_line.call("produce", name_of_topic, lines="a\n")
    assert said.exit_code == 1
    assert "INVALID_TOPIC_EXCEPTION" in said.output
    assert name_of_topic in said.output
    assert "249" in said.output

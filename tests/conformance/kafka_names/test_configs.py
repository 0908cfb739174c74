"""kafka-configs.sh of the image prints the lines of Kafka's tool of this name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.kafka.compared import BROKER, ToolPair, run_ours
from tests.harness.waiting import wait_until

SERVER = ("--bootstrap-server", BROKER)


# Each names several entities, or changes that do not fit together.
REFUSED = """\
--alter --entity-type brokers --entity-name 1 --entity-default --add-config log.roll.ms=70000
--alter --entity-type brokers --entity-default --entity-name 1 --add-config log.roll.ms=70000
--alter --entity-type brokers --entity-name 1 --entity-name 2 --add-config log.roll.ms=70000
--alter --entity-type brokers --add-config log.roll.ms=70000
--alter --topic orders --broker 1 --add-config max.message.bytes=5000
--alter --topic orders --topic bills --add-config max.message.bytes=5000
--alter --topic orders --user a --add-config max.message.bytes=5000
--alter --entity-type topics --entity-type brokers --entity-name 1 --add-config a=1
--alter --entity-type topics --entity-name a --entity-name b --add-config max.message.bytes=5000
--alter --entity-type topics --entity-default --add-config max.message.bytes=5000
--alter --entity-type topics --add-config max.message.bytes=5000
--alter --broker 1 --broker-defaults --add-config log.roll.ms=70000
--alter --broker 1 --entity-default --add-config log.roll.ms=70000
--alter --broker 1 --entity-name 2 --add-config log.roll.ms=70000
--alter --broker x --add-config log.roll.ms=70000
--alter --broker 9999999999 --add-config log.roll.ms=70000
--alter --broker-logger x --add-config kafka=INFO
--describe --broker x
--describe --entity-type brokers --entity-name x
--describe --topic t --add-config x=1
--describe --topic t --delete-config x
--describe --entity-type topics --entity-default
--describe --entity-type broker-loggers
--describe --entity-type topics --entity-type topics
--describe --topic t --topic u
--alter --topic t --add-config x=1 --add-config-file /nosuch
--alter --topic t --add-config x=1 --add-config y=1
--alter --topic t --add-config x=1,y
--alter --topic t --add-config ,
--alter --topic t --add-config x!=1
--alter --topic t --add-config-file /nosuch
--describe --topic t --command-config /nosuch
"""


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--help",),
        SERVER,
        (*SERVER, "--nosuch"),
        (*SERVER, "--describe"),
        (*SERVER, "--describe", "--alter", "--topic", "t"),
        (*SERVER, "--describe", "--entity-type", "nosuch"),
        (*SERVER, "--alter", "--topic", "t"),
        (*SERVER, "--alter", "--topic", "t", "--add-config", "retention.ms"),
        (*SERVER, "--describe", "--topic", "nosuch"),
        (*SERVER, "--describe", "--broker", "7"),
        (*SERVER, "--describe", "--entity-type", "brokers", "--entity-name", "1"),
        (*SERVER, "--describe", "--entity-type", "users"),
        (*SERVER, "--describe", "--entity-type", "clients"),
        *((*SERVER, *line.split()) for line in REFUSED.splitlines()),
        ("--alter", "--broker", "1", "--add-config", "log.roll.ms=70000"),
        ("--describe", "--entity-type", "nosuch"),
        (*SERVER, "--bootstrap-controller", BROKER, "--describe", "--broker", "1"),
    ],
    ids=" ".join,
)
def test_a_command_line_about_no_topic(tools: ToolPair, arguments: tuple[str, ...]) -> None:
    tools.check_same("kafka-configs", *arguments)


def test_the_settings_of_a_topic(tools: ToolPair, name: str) -> None:
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    entity = ("--entity-type", "topics", "--entity-name", name)

    def same(*arguments: str) -> list[str]:
        return tools.check_same("kafka-configs", *SERVER, *arguments).out

    assert same("--describe", *entity) == [f"Dynamic configs for topic {name} are:"]
    changed = "max.message.bytes=5000,cleanup.policy=[compact,delete]"
    assert same("--alter", *entity, "--add-config", changed) == [
        f"Completed updating config for topic {name}."
    ]
    assert len(same("--describe", "--topic", name)) == 3
    same("--alter", "--topic", name, "--delete-config", "max.message.bytes,cleanup.policy")
    same("--describe", "--topic", name)
    same("--alter", "--topic", name, "--add-config", "nosuch=1")
    same("--alter", "--topic", name, "--add-config", "retention.ms=soon")
    same("--alter", "--topic", "nosuch", "--add-config", "retention.ms=1")


def test_all_settings_of_a_topic_and_a_broker(tools: ToolPair, name: str) -> None:
    """Both tools print the same lines about the same broker."""
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    for address in (tools.kafka, tools.oncelog):
        for entity in (("--topic", name), ("--broker", "1")):
            arguments = ("--bootstrap-server", address, "--describe", *entity, "--all")
            theirs = tools.kafka_tool("kafka-configs", *arguments)
            ours = run_ours("kafka-configs", *arguments)
            assert ours.stdout == theirs.stdout
            assert len(ours.lines) > 20


BROKER_1 = ("--entity-type", "brokers", "--entity-name", "1")
ALL_BROKERS = ("--entity-type", "brokers", "--entity-default")


def test_the_dynamic_settings_of_brokers(tools: ToolPair) -> None:
    def same(*arguments: str) -> list[str]:
        return tools.check_same("kafka-configs", *SERVER, *arguments).out

    def described(*entity: str) -> list[str]:
        """Return what both tools print, without the setting that a new cluster of Kafka has."""
        theirs, ours = (
            [line for line in printed.out if "min.insync.replicas" not in line]
            for printed in tools.both("kafka-configs", *SERVER, "--describe", *entity)
        )
        return ours if ours == theirs else []

    assert same("--describe", *BROKER_1) == ["Dynamic configs for broker 1 are:"]
    own = (
        "log.roll.ms=70000,log.cleanup.policy=[compact,delete],leader.replication.throttled.rate=7"
    )
    assert same("--alter", *BROKER_1, "--add-config", own) == [
        "Completed updating config for broker 1."
    ]
    assert same("--alter", *ALL_BROKERS, "--add-config", "log.roll.ms=80000") == [
        "Completed updating default config for brokers in the cluster."
    ]
    try:
        # Kafka responds to a change before its broker has made it.
        wait_until(lambda: len(described(*BROKER_1)) == 4, "the settings of the broker")
        wait_until(lambda: len(described(*ALL_BROKERS)) == 2, "the settings of all brokers")
        roll = [line for line in described(*BROKER_1) if "log.roll.ms" in line]
        values = [f"{kind}:log.roll.ms={ms}" for kind, ms in ROLLS]
        assert roll == [
            f"  log.roll.ms=70000 sensitive=false synonyms={{{', '.join(values)}, "
            "DEFAULT_CONFIG:log.roll.hours=168}"
        ]
    finally:
        same("--alter", *BROKER_1, "--delete-config", ",".join(OWN))
        same("--alter", *ALL_BROKERS, "--delete-config", "log.roll.ms")
    wait_until(lambda: len(described(*BROKER_1)) == 1, "no settings of the broker")
    wait_until(lambda: len(described(*ALL_BROKERS)) == 1, "no settings of all brokers")


OWN = ("log.roll.ms", "log.cleanup.policy", "leader.replication.throttled.rate")
ROLLS = (("DYNAMIC_BROKER_CONFIG", 70000), ("DYNAMIC_DEFAULT_BROKER_CONFIG", 80000))


@pytest.mark.parametrize(
    "change",
    [
        "log.dirs=/x",
        "auto.create.topics.enable=false",
        "log.retention.hours=1",
        "message.max.bytes=-5",
        "message.max.bytes=many",
        "follower.replication.throttled.rate=-1",
        "compression.type=none",
        "log.segment.bytes=100",
        "num.io.threads=0",
        "log.cleaner.threads=5",
        "num.recovery.threads.per.data.dir=5",
        "num.replica.fetchers=3",
        "log.roll.ms=0",
        "log.retention.ms=0",
        "max.connections.per.ip=0",
        "log.cleaner.dedupe.buffer.size=5",
    ],
)
def test_settings_of_a_broker_that_are_refused(tools: ToolPair, change: str) -> None:
    tools.check_same("kafka-configs", *SERVER, "--alter", *BROKER_1, "--add-config", change)


def test_kafkas_own_tool_changes_the_settings_of_our_broker(tools: ToolPair) -> None:
    server = ("--bootstrap-server", tools.oncelog)

    def run(*arguments: str) -> list[str]:
        result = tools.kafka_tool("kafka-configs", *server, *arguments)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.lines

    run("--alter", *ALL_BROKERS, "--add-config", "follower.replication.throttled.rate=70")
    assert run("--describe", *ALL_BROKERS)[1:] == [
        "  follower.replication.throttled.rate=70 sensitive=false synonyms="
        "{DYNAMIC_DEFAULT_BROKER_CONFIG:follower.replication.throttled.rate=70}"
    ]
    run("--alter", *ALL_BROKERS, "--delete-config", "follower.replication.throttled.rate")
    assert run("--describe", *ALL_BROKERS)[1:] == []


def test_the_credentials_of_a_user(tools: ToolPair, name: str) -> None:
    user = ("--entity-type", "users", "--entity-name", name)

    def same(*arguments: str) -> list[str]:
        return tools.check_same("kafka-configs", *SERVER, *arguments).out

    assert same("--describe", *user) == []
    added = "SCRAM-SHA-256=[iterations=8192,password=a-secret]"
    assert same("--alter", *user, "--add-config", added) == [
        f"Completed updating config for user {name}."
    ]

    def kafka_has(*mechanisms: str) -> bool:
        """Return True if Kafka's broker has the credentials. It responds to a change before it has
        them."""
        arguments = ("--bootstrap-server", tools.kafka, "--describe", "--user", name)
        printed = tools.kafka_tool("kafka-configs", *arguments).stdout
        return printed.count("iterations=") == len(mechanisms) and all(
            mechanism in printed for mechanism in mechanisms
        )

    wait_until(lambda: kafka_has("SCRAM-SHA-256"), "the credential")
    assert same("--describe", *user) == [
        f"SCRAM credential configs for user-principal '{name}' are SCRAM-SHA-256=iterations=8192"
    ]
    same("--describe", "--user", name)
    same("--alter", "--user", name, "--add-config", "SCRAM-SHA-512=[password=x=y]")
    wait_until(lambda: kafka_has("SCRAM-SHA-256", "SCRAM-SHA-512"), "both credentials")
    same("--alter", *user, "--delete-config", "SCRAM-SHA-256")
    wait_until(lambda: kafka_has("SCRAM-SHA-512"), "the other credential")
    assert same("--describe", *user) == [
        f"SCRAM credential configs for user-principal '{name}' are SCRAM-SHA-512=iterations=4096"
    ]
    same("--alter", *user, "--delete-config", "SCRAM-SHA-256")
    same("--alter", *user, "--delete-config", "SCRAM-SHA-512")
    wait_until(kafka_has, "no credential")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--add-config", "nosuch=1"),
        ("--add-config", "SCRAM-SHA-1=[password=x]"),
        ("--delete-config", "nosuch"),
        ("--delete-config", "nosuch,other"),
        ("--add-config", "SCRAM-SHA-256=[iterations=4095,password=x]"),
        ("--add-config", "SCRAM-SHA-256=[iterations=,password=x]"),
        ("--add-config", "SCRAM-SHA-256=[password=x],producer_byte_rate=1"),
        (),
    ],
    ids=" ".join,
)
def test_a_command_line_about_users_that_is_refused(
    tools: ToolPair, name: str, arguments: tuple[str, ...]
) -> None:
    user = ("--alter", "--entity-type", "users")
    tools.check_same("kafka-configs", *SERVER, *user, "--entity-name", name, *arguments)


@pytest.mark.parametrize("default", ["--entity-default", ""])
def test_a_credential_needs_the_name_of_its_user(tools: ToolPair, default: str) -> None:
    credential = ("--add-config", "SCRAM-SHA-256=[password=x]")
    user = ("--alter", "--entity-type", "users", *default.split())
    tools.check_same("kafka-configs", *SERVER, *user, *credential)


@pytest.mark.parametrize(
    "credential", ["passwd=a-secret", "iterations=20000,password=a-secret", "password="]
)
def test_an_error_about_a_credential_does_not_show_the_password(
    tools: ToolPair, name: str, credential: str
) -> None:
    """Kafka's tool prints it, so only the last lines and the exit code are the same."""
    user = ("--alter", "--user", name, "--add-config", f"SCRAM-SHA-256=[{credential}]")
    theirs, ours = tools.both("kafka-configs", *SERVER, *user)
    assert ours.status == theirs.status == 1
    assert "a-secret" not in "".join(ours.errors)
    if len(theirs.errors) > 1:
        assert ours.errors[1:] == theirs.errors[1:]


def test_numbers_of_threads_are_changed_while_a_broker_runs(tools: ToolPair) -> None:
    """They have no effect here, but a script that sets them works."""
    # Both refuse more than twice the present number, and less than half of it. The numbers of the
    # two brokers differ (QUIET).
    threads = "num.io.threads=5,num.network.threads=2,log.cleaner.threads=2"
    names = ",".join(pair.partition("=")[0] for pair in threads.split(","))
    for place in (BROKER_1, ALL_BROKERS):
        change = (*SERVER, "--alter", *place)
        try:
            tools.check_same("kafka-configs", *change, "--add-config", threads)
        finally:
            tools.check_same("kafka-configs", *change, "--delete-config", names)


def test_settings_are_removed_by_several_options(tools: ToolPair, name: str) -> None:
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    topic = (*SERVER, "--alter", "--topic", name)
    changes = "max.message.bytes=5000,retention.ms=7,flush.ms=8"
    tools.check_same("kafka-configs", *topic, "--add-config", changes)
    removed = ("--delete-config", "max.message.bytes, flush.ms,", "--delete-config", "retention.ms")
    tools.check_same("kafka-configs", *topic, *removed)
    described = tools.check_same("kafka-configs", *SERVER, "--describe", "--topic", name)
    assert described.out == [f"Dynamic configs for topic {name} are:"]


def test_a_file_of_settings_is_read_as_java_reads_it(
    tools: ToolPair, name: str, tmp_path: Path
) -> None:
    tools.check_same("kafka-topics", *SERVER, "--create", "--topic", name)
    file = tmp_path / "topic.properties"
    file.write_text(
        "# settings\n! of a topic\nmax.message.bytes : 5000\nretention.ms 70000\n"
        "cleanup.policy=compact,\\\n    delete\nflush\\u002ems=\\u0038\n"
        "leader.replication.throttled.replicas\n"
    )
    change = ("--alter", "--topic", name, "--add-config-file", str(file))
    tools.check_same("kafka-configs", *SERVER, *change)
    described = tools.check_same("kafka-configs", *SERVER, "--describe", "--topic", name)
    assert "cleanup.policy=compact,delete" in described.out[1]
    assert len(described.out) == 6

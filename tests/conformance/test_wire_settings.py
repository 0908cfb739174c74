"""Random changes of settings, from a seed. Both brokers respond with the same codes and messages,
and describe the settings in the same way afterwards."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages import alter_configs as replacing
from oncelog_protocol.messages import incremental_alter_configs as changing
from oncelog_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from oncelog_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tests.conformance.conftest import Target
from tests.conformance.differences import (
    CROSSED_LAGS_OF_COMPACTION,
    SETTING_THAT_IS_NO_NUMBER,
    SETTINGS_OF_A_GROUP,
    UNKNOWN_OPERATION_ON_A_TOPIC,
)
from tests.harness.broker import Oncelog
from tests.harness.kafka.kafka import Kafka
from tests.harness.waiting import wait_until

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
SEEDS: Final = range(4)
CHANGES: Final = 60

# Values that are valid for some settings: numbers at the limits of types and ranges, numbers as
# only Java reads them, words of Kafka, and lists.
VALUES: Final = (
    *("", " ", ",", "x", "ä€😀", "null", '"5"', "x" * 30_000, "a\0b"),
    *(
        "0",
        "1",
        "-1",
        "-2",
        "+5",
        "-0",
        "007",
        " 5 ",
        "\t5\n",
        "5\x1f",
        "\xa05",
        "١٢",
        "1_0",
        "0x10",
    ),
    *("9", "10", "17", "22", "23", "-131072", "-131073", "1048575", "1048576", "50000000000"),
    *("2147483647", "2147483648", "-2147483648", "9223372036854775807", "9223372036854775808"),
    *("0.5", ".5", "1.0", "1.5", "1e3", "1E-4", "1e400", "0.1f", "1d", "Infinity", "1e7"),
    *("true", "TRUE", " False ", "yes", "\x85true"),
    *(
        "delete",
        "compact",
        "delete,compact",
        " compact , delete",
        "delete,delete",
        "delete,",
        ",delete",
    ),
    *("gzip", "GZIP", "producer", " zstd ", "CreateTime", "LogAppendTime", "createtime"),
    *(
        "*",
        "0:1",
        "0:1,1:2",
        "0:1, 1:2",
        "0:1,",
        "*,0:1",
        "0:x",
        "0 :1",
        "127.0.0.1:5",
        "127.0.0.1",
    ),
)
# Settings of topics with values that only Kafka accepts, because they belong to tiered storage.
TIERED: Final = (
    "local.retention.bytes",
    "local.retention.ms",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
)
OF_LISTENER: Final = "listener.name.plaintext."
# Dynamic settings of brokers. The numbers of threads are left out, because a change is relative to
# those of the start, which the brokers of the tests have not in common.
OF_BROKERS: Final = (
    "compression.type",
    "follower.replication.throttled.rate",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.min.cleanable.ratio",
    "log.cleanup.policy",
    "log.message.timestamp.type",
    "log.preallocate",
    "log.retention.ms",
    "log.roll.jitter.ms",
    "log.roll.ms",
    "log.segment.bytes",
    "max.connections",
    "max.connections.per.ip",
    "message.max.bytes",
    "producer.id.expiration.ms",
    f"{OF_LISTENER}max.connections",
    # These cannot change while a broker runs.
    "advertised.listeners",
    "log.retention.hours",
    "num.partitions",
)

Outcome = tuple[str, str | None]
Change = tuple[str, int, str | None]
Changes = list[Change]


@pytest.fixture
def wires(running_oncelog: Oncelog, kafka: Kafka) -> Iterator[tuple[Wire, Wire]]:
    """Connections to both brokers: Kafka, then oncelog."""
    with Wire(kafka.address) as theirs, Wire(running_oncelog.address) as ours:
        yield theirs, ours


def outcome(result: Any) -> Outcome:
    return ErrorCode(result.error_code).name, result.error_message


def change(
    wire: Wire, kind: int, name: str, changes: Changes, *, validate_only: bool = False
) -> Outcome:
    entries = [changing.AlterableConfig(*entry) for entry in changes]
    resource = changing.AlterConfigsResource(kind, name, entries)
    request = changing.IncrementalAlterConfigsRequest([resource], validate_only=validate_only)
    return outcome(wire.call(request).responses[0])


def replace(
    wire: Wire, kind: int, name: str, own: dict[str, str | None], *, validate_only: bool = False
) -> Outcome:
    entries = [replacing.AlterableConfig(*entry) for entry in own.items()]
    resource = replacing.AlterConfigsResource(kind, name, entries)
    request = replacing.AlterConfigsRequest([resource], validate_only=validate_only)
    return outcome(wire.call(request).responses[0])


def create(
    wire: Wire, name: str, own: dict[str, str | None], *, validate_only: bool
) -> tuple[Outcome, set[tuple[str, str, int]]]:
    """Return the outcome, and the settings of the response with their sources."""
    entries = [CreatableTopicConfig(*entry) for entry in own.items()]
    request = CreateTopicsRequest(
        [CreatableTopic(name, 1, 1, configs=entries)], validate_only=validate_only
    )
    (result,) = wire.call(request).topics
    shown = {
        (config.name, config.value, config.config_source)
        for config in result.configs or ()
        # A new cluster of Kafka has a value for all brokers (KIP-966).
        if config.name != "min.insync.replicas"
    }
    return outcome(result), shown


def described(wire: Wire, kind: int, name: str, keys: list[str] | None = None) -> Any:
    """Return the outcome, and the settings by name, without the documentation."""
    resource = DescribeConfigsResource(kind, name, keys)
    (result,) = wire.call(DescribeConfigsRequest([resource], include_synonyms=True)).results
    entries = {
        entry.name: (
            (entry.value, entry.config_type, entry.config_source),
            (entry.read_only, entry.is_sensitive),
            [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms],
        )
        for entry in result.configs
    }
    return outcome(result), entries


def check_same(wires: tuple[Wire, Wire], ask: Callable[..., Any], *what: Any, **how: Any) -> None:
    """Assert that both brokers respond in the same way to `ask`."""
    theirs, ours = (ask(wire, *what, **how) for wire in wires)
    assert ours == theirs, (ask.__name__, what, how)


def random_change(rng: random.Random, names: Sequence[str]) -> Change:
    operation = rng.choice((SET, SET, SET, DELETE, APPEND, SUBTRACT))
    return rng.choice(names), operation, rng.choice((*VALUES, None))


def settings_of_topics(wire: Wire, topic: str) -> list[str]:
    names = sorted(described(wire, TOPIC, topic)[1])
    return [*(name for name in names if name not in TIERED), "nosuch", "retention.MS"]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_changes_of_a_topic(wires: tuple[Wire, Wire], name: str, seed: int) -> None:
    rng = random.Random(seed)
    for wire in wires:
        assert create(wire, name, {}, validate_only=False)[0][0] == "NONE"
    theirs = wires[0]
    wait_until(lambda: described(theirs, TOPIC, name)[1], "the topic is in Kafka's metadata")
    names = settings_of_topics(theirs, name)

    def same_settings() -> bool:
        """Kafka's broker knows a change some time after the response."""
        theirs, ours = (described(wire, TOPIC, name) for wire in wires)
        # A new cluster of Kafka has a value for all brokers (KIP-966).
        for _, found in (theirs, ours):
            found.pop("min.insync.replicas")
        return bool(theirs == ours)

    for _ in range(CHANGES):
        key, operation, value = random_change(rng, names)
        only = rng.random() < 0.4
        kind = rng.choice(("change", "change", "change", "replace", "create"))
        if kind == "create":
            check_same(wires, create, f"{name}-2", {key: value}, validate_only=True)
        elif kind == "replace":
            check_same(wires, replace, TOPIC, name, {key: value}, validate_only=only)
        else:
            wanted = [(key, operation, value)]
            check_same(wires, change, TOPIC, name, wanted, validate_only=only)
        wait_until(same_settings, f"the same settings after {kind} {key, operation, value}")
    check_same(wires, described, TOPIC, name, ["flush.ms", "cleanup.policy", "nosuch"])


def test_the_response_to_a_creation_has_the_text_of_a_setting(
    wires: tuple[Wire, Wire], name: str
) -> None:
    own = {"retention.ms": " +7 ", "min.cleanable.dirty.ratio": "1e-5", "preallocate": "TRUE"}
    check_same(wires, create, name, own, validate_only=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_changes_of_a_broker_are_checked(wires: tuple[Wire, Wire], seed: int) -> None:
    """Only checked, because other tests use the brokers too."""
    rng = random.Random(seed)
    for _ in range(2 * CHANGES):
        wanted = random_change(rng, OF_BROKERS)
        broker = rng.choice(("1", ""))
        if rng.random() < 0.2:
            own = {wanted[0]: wanted[2]}
            if not broker:
                # All brokers of a new cluster of Kafka have this setting, and keep it (KIP-966).
                own["min.insync.replicas"] = "1"
            check_same(wires, replace, BROKER, broker, own, validate_only=True)
        else:
            check_same(wires, change, BROKER, broker, [wanted], validate_only=True)


# Names of resources, each with its type.
RESOURCES: Final = (
    *((BROKER, name) for name in ("x", " 1", "2", "+2", "-1", "2147483648")),
    *((TOPIC, name) for name in ("", "a b", "nosuch", "x" * 250, "__cluster_metadata")),
)


@pytest.mark.parametrize(("kind", "name"), RESOURCES)
def test_resources_that_cannot_be_described(wires: tuple[Wire, Wire], kind: int, name: str) -> None:
    check_same(wires, described, kind, name)


def test_a_broker_is_described_by_any_form_of_its_id(wire: Wire) -> None:
    names = set(described(wire, BROKER, "1")[1])
    for name in ("01", "+1"):
        (code, message), found = described(wire, BROKER, name)
        assert (code, message, set(found)) == ("NONE", "", names)


def test_each_setting_of_a_broker_is_described(wires: tuple[Wire, Wire]) -> None:
    """All settings of Kafka are there, with its types and synonyms of the default. Our own may be
    there too."""
    theirs, ours = (described(wire, BROKER, "1")[1] for wire in wires)
    assert theirs.keys() <= ours.keys()
    for name, ((_, kind, _), (_, sensitive), _) in theirs.items():
        (_, our_kind, _), (_, our_sensitive), _ = ours[name]
        assert (our_kind, our_sensitive) == (kind, sensitive), name


def test_lags_of_compaction_of_a_broker_that_cross(target: Target, wire: Wire) -> None:
    wanted: Changes = [
        ("log.cleaner.min.compaction.lag.ms", SET, "12"),
        ("log.cleaner.max.compaction.lag.ms", SET, "5"),
    ]
    for broker in ("1", ""):
        code, _ = change(wire, BROKER, broker, wanted, validate_only=True)
        assert code == CROSSED_LAGS_OF_COMPACTION.expected(target.name)


def test_a_setting_is_no_nan(target: Target, wire: Wire, topic: str) -> None:
    ratio: Changes = [("min.cleanable.dirty.ratio", SET, "NaN")]
    code, _ = change(wire, TOPIC, topic, ratio, validate_only=True)
    assert code == SETTING_THAT_IS_NO_NUMBER.expected(target.name)


def test_an_unknown_operation_on_a_topic(target: Target, wire: Wire, topic: str) -> None:
    for operation in (7, -1):
        code, _ = change(wire, TOPIC, topic, [("flush.ms", operation, "1")], validate_only=True)
        assert code == UNKNOWN_OPERATION_ON_A_TOPIC.expected(target.name)
        missing: Changes = [("flush.ms", operation, None)]
        assert change(wire, TOPIC, topic, missing, validate_only=True) == (
            "INVALID_REQUEST",
            "Null value not supported for : flush.ms",
        )


@pytest.mark.parametrize("kind", [CLIENT_METRICS, GROUP])
def test_groups_and_client_metrics_have_no_settings(target: Target, wire: Wire, kind: int) -> None:
    (code, _), _ = described(wire, kind, "x")
    assert code == SETTINGS_OF_A_GROUP.expected(target.name)

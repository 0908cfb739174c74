"""Every setting of Kafka is in exactly one table, with Kafka's meaning."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oncelog_server.config
from oncelog_server.config import SettingsError, load_settings
from oncelog_server.log.config import LogConfig
from oncelog_server.settings.accepted import ACCEPTED
from oncelog_server.settings.broker import BrokerSettings
from oncelog_server.settings.cleaner import CleanerSettings
from oncelog_server.settings.coordinators import CoordinatorSettings
from oncelog_server.settings.description import describe_topic
from oncelog_server.settings.etcd import EtcdSettings
from oncelog_server.settings.log import LogSettings
from oncelog_server.settings.membership import MembershipSettings
from oncelog_server.settings.model import HONOURED, KNOWN, Settings
from oncelog_server.settings.quotas import QuotaSettings
from oncelog_server.settings.refused import REFUSED
from oncelog_server.settings.sasl import SaslSettings
from oncelog_server.settings.security import SecuritySettings
from oncelog_server.settings.table import (
    InvalidValue,
    Kind,
    Setting,
    at_least,
    between,
    check_length,
    format_value,
    one_of,
    parse_value,
)
from oncelog_server.settings.tls import TlsSettings
from oncelog_server.settings.topics import (
    INTERNAL,
    SYNONYMS,
    TOPIC_SETTINGS,
    check_overrides,
    topic_config,
    topic_default,
    topic_values,
)
from tests.server.settings.kafka_settings import BROKER_SETTINGS, TOPIC_DEFAULTS

NUMBER = Setting("n", Kind.INT, 0, "", at_least(1))


def test_every_broker_setting_of_kafka_is_in_exactly_one_table() -> None:
    tables = (HONOURED.keys(), ACCEPTED.keys(), REFUSED.keys())
    for name in BROKER_SETTINGS:
        assert sum(name in table for table in tables) == 1, name


def test_settings_that_kafka_does_not_have_are_marked_as_ours() -> None:
    # Kafka would have this setting if the early draft of KIP-447 had been released.
    drafted = {"group.transactions.enable"}
    # Kafka has this setting, but not in its documentation.
    unpublished = {"producer.id.expiration.check.interval.ms"}
    # These are settings of Kafka's authorizer, and not of its broker.
    of_the_authorizer = {"super.users", "allow.everyone.if.no.acl.found"}
    ours = KNOWN - set(BROKER_SETTINGS) - drafted - unpublished - of_the_authorizer
    assert all(name.startswith("oncelog.") for name in ours)


def test_every_honoured_setting_has_a_description_and_a_valid_default() -> None:
    for row in HONOURED.values():
        assert len(row.doc) > 10, row.name
        assert getattr(Settings(), row.attribute) == row.default
        if row.check is not None and row.default is not None:
            assert row.check(row.default) is None, row.name


def test_a_topic_has_exactly_kafkas_settings() -> None:
    assert sorted(TOPIC_SETTINGS.keys() - INTERNAL.keys()) == sorted(TOPIC_DEFAULTS)


def test_internal_settings_are_shown_only_where_they_are_set() -> None:
    def shown(own: dict[str, str]) -> dict[str, str | None]:
        return {record.name: record.value for record in describe_topic(Settings(), own)}

    assert "internal.segment.bytes" not in shown({})
    assert shown({"internal.segment.bytes": "100"})["internal.segment.bytes"] == "100"
    own = {"segment.bytes": "1048576", "internal.segment.bytes": "100"}
    assert topic_config(Settings(), own).segment_bytes == 100
    assert topic_config(Settings(), {"segment.bytes": "1048576"}).segment_bytes == 1 << 20


@pytest.mark.parametrize("size", [0, 4096, (1 << 20) - 1])
def test_a_broker_refuses_a_segment_size_below_1_mib(size: int) -> None:
    with pytest.raises(SettingsError, match="Value must be at least 1048576"):
        load_settings(assignments=[f"log.segment.bytes={size}"])


def test_topic_defaults_and_types_are_kafkas() -> None:
    for name, (kind, default) in TOPIC_DEFAULTS.items():
        assert TOPIC_SETTINGS[name].kind.name == kind, name
        assert (format_value(Kind[kind], topic_default(Settings(), name)) or "") == default, name


def test_synonyms_of_topic_settings_are_honoured_broker_settings() -> None:
    for name, broker_names in SYNONYMS.items():
        assert name in TOPIC_SETTINGS
        assert all(HONOURED[broker_name].topic == name for broker_name in broker_names)


def test_the_defaults_of_a_log_are_those_of_a_topic_without_settings() -> None:
    assert topic_config(Settings(), {}) == LogConfig()


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        (Settings(log_retention_hours=1), "retention.ms", 3_600_000),
        (Settings(log_retention_hours=1, log_retention_minutes=1), "retention.ms", 60_000),
        (Settings(log_retention_minutes=1, log_retention_ms=5), "retention.ms", 5),
        (Settings(log_retention_minutes=-1), "retention.ms", -1),
        (Settings(log_roll_hours=2), "segment.ms", 7_200_000),
        (Settings(log_roll_hours=2, log_roll_ms=7), "segment.ms", 7),
        (Settings(log_roll_jitter_hours=1), "segment.jitter.ms", 3_600_000),
        (Settings(log_flush_scheduler_interval_ms=9), "flush.ms", 9),
        (Settings(log_flush_scheduler_interval_ms=9, log_flush_interval_ms=8), "flush.ms", 8),
        (Settings(message_max_bytes=77), "max.message.bytes", 77),
        (Settings(log_cleaner_delete_retention_ms=3), "delete.retention.ms", 3),
    ],
)
def test_a_topic_follows_the_broker_settings_in_kafkas_order(
    settings: Settings, name: str, value: int
) -> None:
    assert topic_default(settings, name) == value


def test_a_topics_own_settings_win() -> None:
    config = topic_config(
        Settings(log_retention_ms=5, oncelog_validate_records=True),
        {"retention.ms": "-1", "cleanup.policy": "compact,delete", "segment.bytes": "1048576"},
    )
    assert (config.retention_ms, config.segment_bytes) == (-1, 1048576)
    assert config.cleanup_policy == {"compact", "delete"}
    assert config.validate_records


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("nonsense", "1", "Unknown topic config name: nonsense"),
        ("retention.ms", "soon", "Not a number of type LONG"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("cleanup.policy", "shred", "String must be one of: compact, delete"),
        ("compression.type", "brotli", "String must be one of"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("remote.storage.enable", "true", "refused: remote (tiered) storage is not built"),
        ("local.retention.ms", "5", "refused"),
        ("leader.replication.throttled.replicas", "*", ""),
        ("leader.replication.throttled.replicas", "0:1, 1:2", ""),
        ("follower.replication.throttled.replicas", "", ""),
        (
            "leader.replication.throttled.replicas",
            "0:1,x",
            # Kafka's text.
            "Invalid value [0:1, x] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas "
            "in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        ("follower.replication.throttled.replicas", "0:1,*", "Invalid value [0:1, *] for "),
        ("follower.replication.throttled.replicas", "none", "must be the literal '*'"),
        ("follower.replication.throttled.replicas", "1:x", "must be the literal '*'"),
        ("min.compaction.lag.ms", "9223372036854775807", ""),
    ],
)
def test_topic_settings_are_refused_by_name(name: str, text: str, reason: str) -> None:
    if not reason:
        topic_values(Settings(), {name: text})
        return
    with pytest.raises(InvalidValue) as caught:
        topic_values(Settings(), {name: text})
    assert name in str(caught.value)
    assert reason in str(caught.value)


def test_lags_of_compaction_may_not_cross() -> None:
    with pytest.raises(InvalidValue, match=r"min\.compaction\.lag\.ms \(5\) > max"):
        check_overrides(Settings(), {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"})


def test_a_topic_that_contradicts_the_broker_by_now_can_be_opened_and_described() -> None:
    """The topic was created before the broker's own setting changed. As in Kafka, the broker starts
    and serves it."""
    settings = load_settings(assignments=["log.cleaner.max.compaction.lag.ms=1000"]).settings
    own = {"min.compaction.lag.ms": "5000"}
    assert topic_config(settings, own).min_compaction_lag_ms == 5000
    described = {row.name: row.value for row in describe_topic(settings, own)}
    assert described["max.compaction.lag.ms"] == "1000"
    with pytest.raises(InvalidValue, match=r"min\.compaction\.lag\.ms \(5000\) > max"):
        check_overrides(settings, own)


@pytest.mark.parametrize(
    "text",
    ["1_000", "1.0", "", "0x10", "\U0001d7d3", "2147483648", "9" * 5000, "1 2", "\xa05", "\u20035"],
)
def test_text_that_java_does_not_parse_as_an_int_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="Not a number of type INT"):
        parse_value(NUMBER, text)


def test_an_int_may_have_the_digits_of_any_script_and_many_zeros() -> None:
    assert parse_value(NUMBER, "٣") == 3
    assert parse_value(NUMBER, "+" + "0" * 5000 + "3") == 3
    assert parse_value(Setting("n", Kind.INT, 0, ""), "-" + "0" * 5000) == 0


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("min.cleanable.dirty.ratio", "1" * 32_000 + "x"),
        ("min.cleanable.dirty.ratio", "1e" + "1" * 32_000 + "x"),
        ("cleanup.policy", "compact" + " " * 32_000 + "x"),
        ("leader.replication.throttled.replicas", "1" + " " * 32_000 + "1"),
        ("retention.ms", "0" * 32_000 + "x"),
        ("message.timestamp.type", " " * 32_000 + "x"),
    ],
)
def test_a_long_text_is_refused_after_a_walk_of_its_characters(name: str, text: str) -> None:
    """A walk from each character would take up to 41 s of the event loop."""
    with pytest.raises(InvalidValue):
        topic_values(Settings(), {name: text})


SHARE = Setting("d", Kind.DOUBLE, 0.5, "", between(0, 1))
WORD = Setting("s", Kind.STRING, "a", "", one_of("a", "b"))
WORDS = Setting("l", Kind.LIST, (), "", entry=one_of("a", "b"))
TRUTH = Setting("b", Kind.BOOLEAN, False, "")


@pytest.mark.parametrize(
    ("row", "text", "message"),
    [
        (NUMBER, " x ", "Invalid value  x  for configuration n: Not a number of type INT"),
        (NUMBER, " -0 ", "Invalid value 0 for configuration n: Value must be at least 1"),
        (SHARE, "2", "Invalid value 2.0 for configuration d: Value must be no more than 1"),
        (SHARE, "1e7f", "Invalid value 1.0E7 for configuration d: Value must be no more than 1"),
        (SHARE, "-.5", "Invalid value -0.5 for configuration d: Value must be at least 0"),
        (SHARE, "1_0", "Invalid value 1_0 for configuration d: Not a number of type DOUBLE"),
        (SHARE, "inf", "Invalid value inf for configuration d: Not a number of type DOUBLE"),
        (WORD, " c ", "Invalid value c for configuration s: String must be one of: a, b"),
        (WORDS, "a,c ,b", "Invalid value c for configuration l: String must be one of: a, b"),
        (WORDS, "a,,b", "Configuration 'l' values must not be empty."),
        (WORDS, "a\xa0,b", "Invalid value a\xa0 for configuration l: String must be one of: a, b"),
        (
            TRUTH,
            " x",
            "Invalid value  x for configuration b: Expected value to be either true or false",
        ),
    ],
)
def test_an_invalid_value_is_named_as_in_kafka(row: Setting, text: str, message: str) -> None:
    """A text that is not of the type is named with its blanks, else the value is named."""
    with pytest.raises(InvalidValue) as caught:
        parse_value(row, text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (0.001, "0.001"),
        (0.000123, "1.23E-4"),
        (1e-5, "1.0E-5"),
        (9_999_999.0, "9999999.0"),
        (-10_000_000.0, "-1.0E7"),
        (12_345_678.9, "1.23456789E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("-inf"), "-Infinity"),
        (0.0, "0.0"),
    ],
)
def test_a_double_is_shown_as_by_java(value: float, text: str) -> None:
    assert format_value(Kind.DOUBLE, value) == text
    assert parse_value(Setting("d", Kind.DOUBLE, 0.0, ""), text) == value


def test_an_entry_that_a_list_has_twice_counts_once() -> None:
    assert parse_value(WORDS, "b, a,b") == ("b", "a")


def test_texts_are_trimmed_and_booleans_are_any_case() -> None:
    assert parse_value(NUMBER, " +7 ") == 7
    assert parse_value(Setting("b", Kind.BOOLEAN, False, ""), " TRUE ") is True
    assert parse_value(Setting("l", Kind.LIST, (), ""), " a , b,c ") == ("a", "b", "c")
    assert parse_value(Setting("l", Kind.LIST, (), ""), "") == ()
    with pytest.raises(InvalidValue, match="Expected value to be either true or false"):
        parse_value(Setting("b", Kind.BOOLEAN, False, ""), "yes")


@given(st.sampled_from(sorted(HONOURED)), st.text(max_size=30))
def test_any_text_is_refused_or_is_the_same_value_after_formatting(name: str, text: str) -> None:
    row = HONOURED[name]
    try:
        value = parse_value(row, text)
    except InvalidValue:
        return
    shown = format_value(row.kind, value)
    if row.kind is Kind.PASSWORD:
        assert shown is None
        return
    assert shown is not None
    assert parse_value(row, shown) == value


# Defaults that differ from Kafka's, with the reason.
DIFFERENT = {
    "node.id": "Kafka demands one",
    "controller.listener.names": "Kafka demands them",
    "process.roles": "Kafka demands them",
    "log.dir": "Kafka's default is a temporary folder, which is no place for data",
    "socket.send.buffer.bytes": (
        "readers of 1 MB responses get a tenth more bytes per second than with Kafka's default"
    ),
    "sasl.server.max.receive.size": "no request before authentication is larger",
    "max.connections": "Kafka has no limit, but file descriptors run out",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (
        "shorter: a crashed producer's transaction holds readers back until the next scan"
    ),
}


def test_defaults_and_types_are_kafkas_with_the_listed_exceptions() -> None:
    for name, (kind, default) in BROKER_SETTINGS.items():
        if name in HONOURED:
            row = HONOURED[name]
            assert row.kind.name == kind, name
            shown = format_value(row.kind, row.default)
            assert (("null" if shown is None else shown) != default) == (name in DIFFERENT), name
        else:
            other = ACCEPTED.get(name) or REFUSED[name]
            assert (other.kind.name, other.default) == (
                kind,
                None if default == "null" else default,
            )


SERVER = Path(oncelog_server.config.__file__).parent


def test_every_honoured_setting_is_read_by_some_part_of_the_broker() -> None:
    """If no module reads a setting, the setting belongs in the table of settings without effect.
    Settings that topics have too are exempt: the broker passes them to the topic's logs."""
    tables = SERVER / "settings"
    readers = [path for path in SERVER.rglob("*.py") if tables not in path.parents]
    deciding = ("contradictions", "listeners", "listener_security", "topics")
    readers += [tables / f"{name}.py" for name in deciding]
    words = set()
    for path in readers:
        words.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    unread = [
        row.name for row in HONOURED.values() if row.topic is None and row.attribute not in words
    ]
    assert not unread


def test_each_setting_is_declared_in_exactly_one_class() -> None:
    parts = (
        BrokerSettings,
        LogSettings,
        CleanerSettings,
        CoordinatorSettings,
        SecuritySettings,
        TlsSettings,
        SaslSettings,
        QuotaSettings,
        EtcdSettings,
        MembershipSettings,
    )
    declared = [field.name for part in parts for field in fields(part)]
    assert len(declared) == len(set(declared)) == len(HONOURED)


@pytest.mark.parametrize("text", ["x" * 32_767, "x" + "\N{EURO SIGN}" * 10_922])
def test_a_value_may_be_as_long_as_a_string_of_the_protocol(text: str) -> None:
    """DescribeConfigs before v4 encodes the length of a string as an INT16."""
    check_length("a.setting", text)
    with pytest.raises(
        InvalidValue, match=r"a\.setting: it has 32768 bytes, and the maximum is 32767"
    ):
        check_length("a.setting", text + "x")


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("authorizer.class.name", "org.example.Mine", "Java classes cannot be loaded"),
        ("super.users", "User:alice;bob", "principalType:principalName"),
        ("allow.everyone.if.no.acl.found", "perhaps", "perhaps"),
    ],
)
def test_settings_of_the_authorizer_are_checked(name: str, text: str, reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason):
        parse_value(HONOURED[name], text)

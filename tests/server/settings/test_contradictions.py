"""Settings that are valid alone and contradict others are all found, each under its name."""

from __future__ import annotations

import pytest

from oncelog_server.config import SettingsError, load_settings
from oncelog_server.settings.contradictions import contradictions
from oncelog_server.settings.listeners import client_listeners
from oncelog_server.settings.model import Settings


def test_the_defaults_do_not_contradict_each_other() -> None:
    assert contradictions(Settings()) == []


@pytest.mark.parametrize(
    "assignment",
    [
        "process.roles=controller",
        "log.retention.hours=0",
        "group.min.session.timeout.ms=2000000",
        "queued.max.request.bytes=5",
        "replica.socket.timeout.ms=499",
        "max.connections.per.ip.overrides=10.0.0.1:x",
        "max.connections.per.ip.overrides=10.0.0.1:5,10.0.0.2",
        "max.connections.per.ip.overrides=:5",
        "max.connections.per.ip.overrides=::1:-5",
        "listener.name.internal.ssl.keystore.location=x",
    ],
)
def test_settings_that_exclude_each_other(assignment: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings(assignments=[assignment])
    (problem,) = raised.value.problems
    assert str(problem).startswith(f"{assignment} (--set): ")


_NOT_ADVERTISED = (
    "inter.broker.listener.name must be a listener name defined in advertised.listeners. "
    "The valid options based on currently configured listeners are "
)
_TWO_PLAIN = ("listeners=A://:1,B://:2", "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT")


@pytest.mark.parametrize(
    ("assignments", "reason"),
    [
        (["security.inter.broker.protocol=SSL"], f"{_NOT_ADVERTISED}PLAINTEXT"),
        ([*_TWO_PLAIN, "security.inter.broker.protocol=PLAINTEXT"], f"{_NOT_ADVERTISED}A,B"),
        (
            ["inter.broker.listener.name=PLAINTEXT", "security.inter.broker.protocol=SSL"],
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be "
            "set.",
        ),
        (
            ["inter.broker.listener.name=PLAINTEXT", "security.inter.broker.protocol=PLAINTEXT"],
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be "
            "set.",
        ),
        (["inter.broker.listener.name=SSL"], f"{_NOT_ADVERTISED}PLAINTEXT"),
        (
            ["inter.broker.listener.name=other"],
            "Listener with name OTHER defined in inter.broker.listener.name not found in "
            "listener.security.protocol.map.",
        ),
        (
            [*_TWO_PLAIN, "advertised.listeners=A://host:1", "inter.broker.listener.name=B"],
            f"{_NOT_ADVERTISED}A",
        ),
    ],
)
def test_a_listener_for_other_brokers_that_does_not_fit_is_refused_as_by_kafka(
    assignments: list[str], reason: str
) -> None:
    """The links to other brokers used to be in plain text, in spite of
    security.inter.broker.protocol=SSL."""
    with pytest.raises(SettingsError) as raised:
        load_settings(assignments=assignments)
    (problem,) = raised.value.problems
    assert problem.name == assignments[-1].partition("=")[0]
    assert problem.reason.endswith(reason)


@pytest.mark.parametrize(
    "assignments",
    [
        [],
        [*_TWO_PLAIN],
        [*_TWO_PLAIN, "advertised.listeners=A://host:1", "inter.broker.listener.name=a"],
        ["security.inter.broker.protocol=PLAINTEXT"],
    ],
)
def test_a_listener_for_other_brokers_that_fits_is_accepted(assignments: list[str]) -> None:
    assert contradictions(load_settings(assignments=assignments).settings) == []


@pytest.mark.parametrize(
    ("assignment", "shown"),
    [
        (
            "group.max.session.timeout.ms=5000",
            "group.min.session.timeout.ms=6000 (default): is above "
            "group.max.session.timeout.ms=5000",
        ),
        (
            "replica.lag.time.max.ms=400",
            "replica.fetch.wait.max.ms=500 (default): is above replica.lag.time.max.ms=400",
        ),
        (
            "oncelog.etcd.username=broker",
            "oncelog.etcd.password (not set): belongs to oncelog.etcd.username: set both or "
            "neither",
        ),
        (
            "oncelog.brokers=60000",
            "oncelog.brokers=60000 (--set): the last of the brokers would get the port 69091",
        ),
        (
            "listeners=FOO://:19501",
            "listeners=FOO://:19501 (--set): No security protocol defined for listener FOO: add it "
            "to listener.security.protocol.map",
        ),
        (
            "listener.security.protocol.map=FOO:SSL",
            "listener.security.protocol.map=FOO:SSL (--set): No security protocol defined for "
            "listener PLAINTEXT",
        ),
    ],
)
def test_the_value_of_a_default_is_shown(assignment: str, shown: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings(assignments=[assignment])
    assert str(raised.value) == shown


def test_the_default_session_of_a_broker_is_shown() -> None:
    given = ["broker.heartbeat.interval.ms=9000", "oncelog.etcd.endpoints=http://127.0.0.1:1"]
    with pytest.raises(SettingsError) as raised:
        load_settings(assignments=given)
    assert str(raised.value) == (
        "broker.session.timeout.ms=9000 (default): is not above broker.heartbeat.interval.ms=9000: "
        "the registration would end before its renewal"
    )


def test_every_contradiction_is_found() -> None:
    settings = Settings(
        listeners=("PLAINTEXT://:9092",),
        oncelog_metrics_port=9092,
        log_retention_ms=0,
        queued_max_request_bytes=5,
    )
    assert [name for name, _ in contradictions(settings)] == [
        "oncelog.metrics.port",
        "queued.max.request.bytes",
        "log.retention.ms",
    ]


def test_listeners_that_are_not_valid_are_found_once() -> None:
    settings = Settings(listeners=("nonsense",), oncelog_metrics_port=9092)
    assert client_listeners(settings) == ()
    assert [name for name, _ in contradictions(settings)] == ["listeners"]


def test_a_registration_must_not_end_before_its_renewal() -> None:
    """A broker that is alone renews nothing."""
    quick = {"broker_session_timeout_ms": 2_000, "broker_heartbeat_interval_ms": 2_000}
    assert contradictions(Settings(**quick)) == []  # type: ignore[arg-type]
    for others in ({"oncelog_etcd_endpoints": ("http://etcd:2379",)}, {"oncelog_brokers": 2}):
        found = contradictions(Settings(**quick, **others))  # type: ignore[arg-type]
        assert [name for name, _ in found] == ["broker.session.timeout.ms"]


def test_the_lags_of_compaction_may_not_cross() -> None:
    """Kafka refuses to start too (LogConfig.validateBrokerLogConfigValues)."""
    lags = ("log.cleaner.min.compaction.lag.ms=5", "log.cleaner.max.compaction.lag.ms=4")
    with pytest.raises(SettingsError) as raised:
        load_settings(assignments=lags)
    assert str(raised.value) == (
        "log.cleaner.min.compaction.lag.ms=5 (--set): is above log.cleaner.max.compaction.lag.ms=4"
    )

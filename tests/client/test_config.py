"""Settings have Kafka's defaults and limits. Conflicting settings raise the same errors as in
Kafka's clients."""

from __future__ import annotations

import re
from typing import Any, cast, get_type_hints

import pytest

from oncelog_client import config
from oncelog_client.core.client_config import (
    AdminConfig,
    AdminSettings,
    ClientConfig,
    ClientSettings,
    admin_config,
)
from oncelog_client.core.consumer_config import ConsumerConfig, ConsumerSettings, consumer_config
from oncelog_client.core.producer_config import ProducerConfig, ProducerSettings, producer_config
from oncelog_client.core.security_settings import SecuritySettings
from oncelog_client.errors import ConfigError, SettingsWarning
from oncelog_protocol.records.compression import Compression


def producer(**settings: Any) -> ProducerConfig:
    return producer_config("localhost:9092", cast(ProducerSettings, settings))


def consumer(**settings: Any) -> ConsumerConfig:
    return consumer_config("localhost:9092", cast(ConsumerSettings, settings))


@pytest.mark.parametrize(
    ("settings", "config"),
    [
        (AdminSettings, AdminConfig),
        (ProducerSettings, ProducerConfig),
        (ConsumerSettings, ConsumerConfig),
    ],
)
def test_the_accepted_settings_are_those_with_defaults(
    settings: type, config: type[ClientConfig]
) -> None:
    assert set(get_type_hints(settings)) == set(config.defaults) - {"bootstrap_servers"}


def test_the_defaults_are_kafkas() -> None:
    made = producer()
    assert (made.acks, made.enable_idempotence, made.retries) == (-1, True, 2147483647)
    assert (made.linger_ms, made.batch_size, made.buffer_memory) == (5, 16384, 33554432)
    assert (made.max_in_flight_requests_per_connection, made.transaction_timeout_ms) == (5, 60000)
    assert made.compression is Compression.NONE
    read = consumer(group_id="g")
    assert (read.auto_offset_reset, read.isolation_level) == ("latest", "read_uncommitted")
    assert (read.session_timeout_ms, read.heartbeat_interval_ms) == (45000, 3000)
    assert read.partition_assignment_strategy == ("range", "cooperative-sticky")
    assert admin_config("localhost:1").default_api_timeout_ms == 60000


CONFLICTS = [
    ({"acks": 1}, "acks=1"),
    ({"acks": "0"}, "acks=0"),
    ({"retries": 0}, "retries=0"),
]
MANY_IN_FLIGHT = {"max_in_flight_requests_per_connection": 6}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"acks": 1}, "Must set acks to all in order to use the idempotent producer."),
        ({"acks": "0"}, "Must set acks to all in order to use the idempotent producer."),
        ({"retries": 0}, "Must set retries to non-zero when using the idempotent producer."),
        ({"retries": 0, "acks": 1}, "Must set retries to non-zero"),
    ],
)
def test_explicit_idempotence_with_a_conflicting_setting_is_an_error(
    settings: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        producer(enable_idempotence=True, **settings)


@pytest.mark.parametrize("settings", [{}, {"enable_idempotence": True}, {"acks": 1}])
def test_more_than_five_requests_in_flight_are_refused(settings: dict[str, Any]) -> None:
    """Kafka's producer refuses them, whether or not the caller has set enable.idempotence."""
    text = (
        "To use the idempotent producer, max_in_flight_requests_per_connection must be set to at "
        "most 5. Current value is 6."
    )
    with pytest.raises(ConfigError, match=re.escape(text)):
        producer(**MANY_IN_FLIGHT, **settings)
    without = settings | {"enable_idempotence": False}
    assert not producer(**MANY_IN_FLIGHT, **without).enable_idempotence


@pytest.mark.parametrize(("settings", "reason"), CONFLICTS)
def test_a_conflicting_setting_switches_default_idempotence_off_with_a_warning(
    settings: dict[str, Any], reason: str
) -> None:
    with pytest.warns(SettingsWarning, match=reason):
        made = producer(**settings)
    assert not made.enable_idempotence


@pytest.mark.parametrize(("settings", "reason"), CONFLICTS)
def test_without_idempotence_no_setting_conflicts(settings: dict[str, Any], reason: str) -> None:
    assert not producer(enable_idempotence=False, **settings).enable_idempotence


@pytest.mark.parametrize("settings", [{"enable_idempotence": False}, *(c[0] for c in CONFLICTS)])
def test_a_transactional_id_needs_idempotence(settings: dict[str, Any]) -> None:
    text = "Cannot set a transactional_id without also enabling idempotence."
    with pytest.raises(ConfigError, match=text):
        producer(transactional_id="x", **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"acks": 2},
        {"compression_type": "brotli"},
        {"batch_size": -1},
        {"max_in_flight_requests_per_connection": 0},
        {"transaction_timeout_ms": 0},
        {"transactional_id": ""},
        {"transaction_two_phase_commit_enable": True},
        {
            "transactional_id": "t",
            "transaction_two_phase_commit_enable": True,
            "transaction_timeout_ms": 60_000,
        },
        {"delivery_timeout_ms": 1000},
    ],
)
def test_a_producer_setting_out_of_range_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        producer(**settings)


def test_the_default_delivery_timeout_grows_with_linger_and_request_timeout() -> None:
    assert producer(linger_ms=200_000).delivery_timeout_ms == 230_000
    least = producer(linger_ms=1_000, request_timeout_ms=2_000, delivery_timeout_ms=3_000)
    assert least.delivery_timeout_ms == 3_000


@pytest.mark.parametrize(
    "settings",
    [
        {"group_id": ""},
        {"group_id": " "},
        {"group_id": "g", "group_instance_id": ""},
        {"group_instance_id": "static"},
        {"enable_auto_commit": True},
        {"isolation_level": "serializable"},
        {"auto_offset_reset": "middle"},
        {"group_id": "g", "partition_assignment_strategy": ()},
        {"group_id": "g", "partition_assignment_strategy": ("sticky",)},
        {"group_id": "g", "session_timeout_ms": 3000},
        {"max_poll_records": 0},
    ],
)
def test_a_consumer_setting_out_of_range_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        consumer(**settings)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"enable_auto_commit": True},
            "enable_auto_commit cannot be set to true when default group id (null) is used.",
        ),
        (
            {"group_id": "g", "heartbeat_interval_ms": 45_000},
            "Heartbeat must be set lower than the session timeout",
        ),
        (
            {"group_id": " "},
            "The configured group_id should not be an empty string or whitespace.",
        ),
    ],
)
def test_a_conflict_has_the_text_of_kafkas_consumer(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        consumer(**settings)


def test_without_a_group_nothing_is_committed_automatically() -> None:
    assert consumer(group_id="g").enable_auto_commit
    assert not consumer().enable_auto_commit


def test_the_error_for_an_unknown_setting_names_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean linger_ms"):
        producer(**{"linger.ms": 5})


@pytest.mark.parametrize(
    ("settings", "config"),
    [
        (SecuritySettings, ClientConfig),
        (ClientSettings, ClientConfig),
        (AdminSettings, AdminConfig),
        (ProducerSettings, ProducerConfig),
        (ConsumerSettings, ConsumerConfig),
    ],
)
def test_every_setting_is_described_with_its_type_and_default(settings: Any, config: Any) -> None:
    text = " ".join((settings.__doc__ or "").split())
    bases = {ClientSettings: SecuritySettings, SecuritySettings: None}
    base = bases.get(settings, ClientSettings)
    inherited = set() if base is None else set(base.__annotations__)
    defaults = config.defaults
    own = set(settings.__annotations__) - inherited
    assert own
    for name in own:
        described = re.search(rf"\b{name} \([a-zA-Z |]+\): .*?Default: ([^.]*)\.", text)
        assert described, f"{name} is not described"
        default = str(defaults[name]) if isinstance(defaults[name], str) else repr(defaults[name])
        assert described[1].replace('"', "").replace("'", "") == default.replace("'", ""), name


def test_the_module_config_exports_the_names_of_each_module_of_settings() -> None:
    assert config.AdminConfig is AdminConfig
    assert config.ConsumerConfig is ConsumerConfig
    assert config.producer_config is producer_config
    assert dir(config) == sorted(config.__all__)
    assert all(hasattr(config, name) for name in config.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = config.nothing


@pytest.mark.parametrize(
    ("codec", "level"),
    [("gzip", 0), ("gzip", 10), ("gzip", -2), ("lz4", 0), ("lz4", 18), ("zstd", 23)],
)
def test_a_level_that_the_codec_does_not_have_is_refused(codec: str, level: int) -> None:
    with pytest.raises(ConfigError, match=f"compression_level={level} .*{codec}"):
        producer(compression_type=codec, compression_level=level)


@pytest.mark.parametrize(
    ("codec", "level", "effective"),
    [
        ("gzip", -1, None),
        ("gzip", 9, 9),
        ("lz4", 17, 17),
        ("zstd", -5, -5),
        ("zstd", 22, 22),
        ("none", 99, None),
    ],
)
def test_a_level_of_the_codec_is_accepted(codec: str, level: int, effective: int | None) -> None:
    config = producer(compression_type=codec, compression_level=level)
    assert config.compression_level == effective

"""`kafka.*` options become settings of oncelog's clients. A bad option raises an error that names
it."""

from __future__ import annotations

import pytest

from oncelog_client.admin import Admin
from oncelog_client.consumer import Consumer
from oncelog_client.producer import Producer
from oncelog_client.spark.settings.client_settings import (
    ClientSetup,
    Kind,
    Side,
    client_setup,
    remarks,
)
from oncelog_client.spark.settings.options import OptionError, Options

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def setup_of(side: Side, kind: Kind, **settings: str) -> ClientSetup:
    named = {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()}
    return client_setup(Options({**SERVERS, **named}), side, kind)


def test_each_client_gets_the_settings_it_knows() -> None:
    given = {"request_timeout_ms": "5000", "linger_ms": "7", "fetch_min_bytes": "3", "acks": "all"}
    ours = {"client_id": "oncelog-spark", "request_timeout_ms": 5_000}
    assert setup_of("source", "admin", **given).keywords == ours
    assert setup_of("source", "consumer", **given).keywords == {
        **ours,
        "fetch_min_bytes": 3,
        "isolation_level": "read_committed",
        "max_partition_fetch_bytes": 4 << 20,
    }
    assert setup_of("sink", "producer", **given).keywords == {
        **ours,
        "acks": "all",
        "linger_ms": 7.0,
    }


def test_a_client_setup_is_hashable_and_its_settings_are_valid() -> None:
    assert Admin(*SERVERS.values(), **setup_of("sink", "admin").keywords)
    assert Consumer(*SERVERS.values(), **setup_of("source", "consumer").keywords)
    assert Producer(*SERVERS.values(), **setup_of("sink", "producer").keywords)
    assert {setup_of("sink", "admin"): 1}[setup_of("sink", "admin")] == 1
    assert setup_of("sink", "admin").having(client_id="a").keywords["client_id"] == "a"


def test_the_source_reads_committed_by_default() -> None:
    assert setup_of("source", "consumer").keywords["isolation_level"] == "read_committed"
    given = setup_of("source", "consumer", isolation_level="READ_UNCOMMITTED")
    assert given.keywords["isolation_level"] == "read_uncommitted"


@pytest.mark.parametrize(
    ("side", "option", "value"),
    [
        ("source", "kafka.auto.offset.reset", "latest"),
        ("source", "kafka.enable.auto.commit", "true"),
        ("source", "kafka.interceptor.classes", "x"),
        ("source", "kafka.key.deserializer", "x"),
        ("source", "kafka.value.deserializer", "x"),
        ("source", "kafka.isolation.level", "snapshot"),
        ("source", "kafka.fetch.max.bytes", "-1"),
        ("source", "kafka.fetch.max.bytes", "many"),
        ("source", "kafka.check.crcs", "yes"),
        ("source", "kafka.security.protocol", "SASL_SSL"),
        ("source", "kafka.sasl.mechanism", "PLAIN"),
        ("source", "kafka.ssl.truststore.location", "x"),
        ("source", "kafka.bootstrap.servers", "nowhere"),
        ("sink", "kafka.key.serializer", "x"),
        ("sink", "kafka.value.serializer", "x"),
        ("sink", "kafka.transactional.id", "x"),
        ("sink", "kafka.transaction.two.phase.commit.enable", "true"),
        ("sink", "kafka.acks", "1"),
        ("sink", "kafka.enable.idempotence", "false"),
        ("sink", "kafka.compression.type", "brotli"),
    ],
)
def test_the_error_for_an_unsupported_option_has_its_name_and_value(
    side: Side, option: str, value: str
) -> None:
    with pytest.raises(OptionError) as caught:
        client_setup(
            Options({**SERVERS, option: value}),
            side,
            "consumer" if side == "source" else "producer",
        )
    assert (caught.value.name, caught.value.value) == (option, value)


def test_bootstrap_servers_are_required() -> None:
    with pytest.raises(OptionError, match=r"^option kafka\.bootstrap\.servers: is needed$"):
        client_setup(Options({}), "source", "admin")


def test_security_protocol_plaintext_is_accepted() -> None:
    assert setup_of("source", "admin", security_protocol="plaintext") == setup_of("source", "admin")


def test_only_the_level_of_the_chosen_compression_is_used() -> None:
    given = {
        "compression_type": "zstd",
        "compression_zstd_level": "3",
        "compression_gzip_level": "9",
    }
    assert setup_of("sink", "producer", **given).keywords["compression_level"] == 3


def test_a_setting_without_effect_gets_a_remark() -> None:
    given = {"kafka.group.id": "g", "kafka.receive.buffer.bytes": "1", "groupIdPrefix": "p"}
    said = remarks(Options({**SERVERS, **given, "kafka.fetch.min.bytes": "1"}), "source")
    assert [sentence.split()[0] for sentence in said] == [
        "groupIdPrefix",
        "kafka.group.id",
        "kafka.receive.buffer.bytes",
    ]

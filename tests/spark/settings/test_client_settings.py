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
from oncelog_protocol.secret import Secret

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
        ("source", "kafka.security.protocol", "TLS"),
        ("source", "kafka.sasl.mechanism", "PLAIN"),
        ("source", "kafka.ssl.truststore.location", "x"),
        ("sink", "kafka.ssl.truststore.type", "DER"),
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


SECURED = {
    "security_protocol": "sasl_ssl",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_jaas_config": "kafkashaded.org.apache.kafka.common.security.scram.ScramLoginModule"
    ' required username="u" password=" p ";',
    "ssl_truststore_type": "PEM",
    "ssl_truststore_certificates": "-----BEGIN CERTIFICATE-----",
    "ssl_enabled_protocols": "TLSv1.2, TLSv1.3",
    "ssl_endpoint_identification_algorithm": "",
}


@pytest.mark.parametrize(("side", "kind"), [("source", "admin"), ("source", "consumer")])
def test_tls_and_sasl_have_the_options_of_kafkas_client(side: Side, kind: Kind) -> None:
    keywords = setup_of(side, kind, **SECURED).keywords
    for name, value in SECURED.items():
        secret = name in ("sasl_jaas_config", "ssl_truststore_certificates")
        assert keywords[name] == (Secret(value) if secret else value)


def test_tls_and_sasl_are_the_same_for_each_client_of_a_sink() -> None:
    for kind in ("admin", "producer"):
        keywords = setup_of("sink", kind, **SECURED).keywords
        assert keywords.items() >= {"security_protocol": "sasl_ssl"}.items()
        assert "sasl_jaas_config" in keywords


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("kafka.ssl.engine.factory.class", "x.Y", "it names a class of Java"),
        ("kafka.sasl.login.callback.handler.class", "x.Y", "it names a class of Java other than"),
        ("kafka.ssl.keystore.pasword", "secret", "the clients have no such setting"),
        ("kafka.sasl.oauthbearer.token", "secret", "the clients have no such setting"),
    ],
)
def test_a_setting_of_security_without_effect_is_refused(
    option: str, value: str, reason: str
) -> None:
    """Without an error, data could be sent unencrypted."""
    with pytest.raises(OptionError, match=reason) as caught:
        client_setup(Options({**SERVERS, option: value}), "source", "consumer")
    assert str(caught.value).startswith(f"option {option}=[hidden]: is not supported: ")


def test_the_error_of_a_contradiction_has_the_names_of_the_options() -> None:
    given = {name: SECURED[name] for name in ("security_protocol", "sasl_mechanism")}
    with pytest.raises(
        OptionError,
        match=r"needs kafka\.sasl\.jaas\.config, or kafka\.sasl\.username and kafka\.sasl\.pass",
    ):
        setup_of("source", "consumer", **given)


def test_a_setting_of_the_java_runtime_is_ignored_with_a_remark() -> None:
    options = Options({**SERVERS, "kafka.ssl.protocol": "TLSv1.3"})
    assert client_setup(options, "source", "admin").keywords == {"client_id": "oncelog-spark"}
    assert any("kafka.ssl.protocol has no effect" in text for text in remarks(options, "source"))


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

"""No error of the client or of Spark's options contains a secret."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

import pytest

from oncelog_client import Admin, ConfigError, Consumer, Producer
from oncelog_client.spark.settings.client_settings import ClientSetup, client_setup, remarks
from oncelog_client.spark.settings.options import OptionError, Options

CANARY = "S3cret!"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f'{PLAIN} required username="u" password="{CANARY}";'
SERVER = "broker:9092"

# Each setting is refused: for its name, for another setting that is missing, or for its value.
SECRETS = [
    ("sasl.jaas.config", JAAS),
    ("sasl.jas.config", JAAS),
    ("sasl.password", CANARY),
    ("ssl.key.password", CANARY),
    ("ssl.keystore.pasword", CANARY),
    ("sasl.oauthbearer.client.secret", CANARY),
    ("sasl.oauthbearer.token", CANARY),
    ("ssl.keystore.key", f"-----BEGIN PRIVATE KEY-----{CANARY}"),
    ("ssl.truststore.certificates", CANARY),
]


def _whole(error: BaseException) -> str:
    """Return all texts of an exception that may reach a log."""
    return "".join(
        (
            str(error),
            repr(error),
            str(vars(error)),
            "".join(traceback.format_exception(error)),
            str(pickle.loads(pickle.dumps(error))),
        )
    )


@pytest.mark.parametrize(("name", "value"), SECRETS)
@pytest.mark.parametrize("side", ["source", "sink"])
@pytest.mark.parametrize("kind", ["admin", "consumer", "producer"])
def test_spark_refuses_a_secret_without_repeating_it(
    name: str, value: str, side: Any, kind: Any
) -> None:
    """A former defect: the error contained the password, as in
    `OptionError: option kafka.sasl.jaas.config='… password="S3cret!";'`."""
    options = Options({"kafka.bootstrap.servers": SERVER, f"kafka.{name}": value})
    with pytest.raises(OptionError) as caught:
        client_setup(options, side, kind)
    assert CANARY not in _whole(caught.value)
    assert f"option kafka.{name}=[hidden]: " in str(caught.value)


def test_spark_does_not_repeat_a_secret_of_a_setting_without_effect() -> None:
    options = Options({"kafka.bootstrap.servers": SERVER, "kafka.my.token": CANARY})
    assert remarks(options, "source")
    assert CANARY not in str(remarks(options, "source"))


def test_spark_does_not_repeat_a_secret_in_invalid_bootstrap_servers() -> None:
    options = Options({"kafka.bootstrap.servers": f"user:{CANARY}@broker,password={CANARY}"})
    with pytest.raises(OptionError) as caught:
        client_setup(options, "source", "admin")
    assert CANARY not in _whole(caught.value)


@pytest.mark.parametrize("client", [Admin, Producer, Consumer])
@pytest.mark.parametrize(("name", "value"), SECRETS)
def test_no_client_repeats_a_secret(client: Any, name: str, value: str) -> None:
    for spelled in (name, name.replace(".", "_"), name.upper()):
        with pytest.raises(ConfigError) as caught:
            client(SERVER, **{spelled: value})
        assert spelled in str(caught.value)
        assert CANARY not in _whole(caught.value)


@pytest.mark.parametrize("client", [Admin, Producer, Consumer])
def test_a_client_that_was_not_started_shows_no_secret(client: Any) -> None:
    settings = {"sasl_mechanism": "PLAIN", "sasl_jaas_config": JAAS}
    made = client(SERVER, security_protocol="SASL_SSL", **settings)
    assert CANARY not in f"{made!r} {made.config!r} {vars(made)}"


@pytest.mark.parametrize("kind", ["admin", "consumer", "producer"])
def test_a_setup_of_spark_shows_no_secret_and_is_equal_only_with_the_same_one(kind: Any) -> None:
    def setup(password: str) -> ClientSetup:
        options = {
            "kafka.bootstrap.servers": SERVER,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": JAAS.replace(CANARY, password),
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.keystore.key": password,
            "kafka.ssl.keystore.certificate.chain": password,
        }
        return client_setup(Options(options), "source", kind)

    made = setup(CANARY)
    assert CANARY not in f"{made!r} {made} {made.keywords}"
    assert made == pickle.loads(pickle.dumps(made)) == setup(CANARY) != setup("another")
    assert len({made, setup(CANARY), setup("another")}) == 2


def test_an_unknown_setting_is_named_without_its_value() -> None:
    misspelled: Any = {"passwrod": CANARY}
    with pytest.raises(ConfigError) as caught:
        Producer(SERVER, **misspelled)
    assert "passwrod" in str(caught.value)
    assert CANARY not in _whole(caught.value)


def test_security_protocol_plaintext_is_accepted_and_changes_nothing() -> None:
    assert Admin(SERVER, security_protocol="PLAINTEXT").config == Admin(SERVER).config

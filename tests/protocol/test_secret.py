"""No way of printing shows a secret."""

import copy
import json
import logging
import pickle
import traceback
from dataclasses import asdict, dataclass

import pytest

from oncelog_protocol.secret import HIDDEN, Secret, displayed, looks_secret

CANARY = "S3cret!"


@dataclass(frozen=True, slots=True)
class _Config:
    password: Secret


def test_no_way_of_printing_shows_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(CANARY)
    config = _Config(secret)
    logging.getLogger("secrets").warning("%s %r %s", secret, secret, config)
    try:
        raise ValueError(secret)
    except ValueError:
        trace = traceback.format_exc()
    printed = [
        f"{secret} {secret!r} {secret!s} {secret:>20}",
        "%s %r" % (secret, secret),  # noqa: UP031 - the form itself is tested
        str(config),
        str(asdict(config)),
        str([secret]),
        json.dumps({"a": secret}, default=str),
        caplog.text,
        trace,
    ]
    assert all(CANARY not in text for text in printed)
    assert all(HIDDEN in text for text in printed)


def test_only_reveal_returns_the_text_of_a_secret() -> None:
    assert Secret(CANARY).reveal() == CANARY
    with pytest.raises(TypeError):
        json.dumps(Secret(CANARY))


def test_secrets_with_the_same_text_are_equal_but_a_secret_equals_no_string() -> None:
    assert Secret("a") == Secret("a")
    assert hash(Secret("a")) == hash(Secret("a"))
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert not Secret("")


def test_a_secret_survives_pickling_and_copying() -> None:
    secret = Secret(CANARY)
    for again in (pickle.loads(pickle.dumps(secret)), copy.deepcopy(secret), copy.copy(secret)):
        assert again == secret


@pytest.mark.parametrize(
    "name",
    [
        "ssl.keystore.password",
        "listener.name.sasl_ssl.plain.sasl.jaas.config",
        "SASL_JAAS_CONFIG",
        "KAFKA_SSL_KEY_CREDENTIALS",
        "aws.secret.access.key",
        "sasl.oauthbearer.client.secret",
        "delegation.token.hmac",
        "ssl.keystore.pasword",
        "ssl.keystore.passwrod",
        "ssl_key_pssword",
        "sasl.client.sceret",
        "ssl.keystore.credntials",
        "auth.tokn",
    ],
)
def test_a_name_that_looks_secret(name: str) -> None:
    assert looks_secret(name)
    assert displayed(name, CANARY) == HIDDEN


@pytest.mark.parametrize(
    "name",
    ["num.partitons", "log.retention.ms", "bootstrap.servers", "group.id", "records", "broken.x"],
)
def test_a_harmless_name_shows_its_value(name: str) -> None:
    assert not looks_secret(name)
    assert displayed(name, "x1") == "'x1'"


@pytest.mark.parametrize(
    "value",
    [
        f'PlainLoginModule required username="u" password="{CANARY}";',
        f"http://user:{CANARY}@proxy:3128",
        f"-----BEGIN PRIVATE KEY-----{CANARY}",
        f"{{'client.secret': '{CANARY}'}}",
    ],
)
def test_a_secret_inside_the_value_of_a_harmless_name_is_hidden(value: str) -> None:
    assert displayed("sasl.jas.config", value) == HIDDEN

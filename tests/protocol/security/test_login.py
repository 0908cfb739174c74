"""From a JAAS configuration to the exchange of a client."""

from __future__ import annotations

import pickle

import pytest

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.jaas import jaas_module
from oncelog_protocol.security.jaas_syntax import JaasError
from oncelog_protocol.security.login import SaslCredentials, password_credentials, sasl_client
from oncelog_protocol.security.mechanisms import SaslMechanism

PLAIN, SHA_256, SHA_512, OAUTHBEARER = SaslMechanism


def credentials(mechanism: SaslMechanism, text: str) -> SaslCredentials:
    return password_credentials("sasl.jaas.config", mechanism, jaas_module("s", text))


def test_plain_sends_the_name_and_the_password() -> None:
    made = credentials(PLAIN, 'PlainLoginModule required username="a" password="b";')

    assert made == SaslCredentials(PLAIN, "a", Secret("b"))
    assert sasl_client(made, bytes).first() == b"\0a\0b"


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize(
    ("option", "sent"),
    [
        ("", ""),
        ('tokenauth="true"', ",tokenauth=true"),
        ("tokenauth=TRUE", ",tokenauth=true"),
        ("tokenauth=no", ""),
    ],
)
def test_scram_sends_the_name_and_a_random_nonce(
    mechanism: SaslMechanism, option: str, sent: str
) -> None:
    made = credentials(mechanism, f'x.ScramLoginModule required username="a" password=b {option};')
    client = sasl_client(made, lambda size: bytes(size - 1) + b"\x40")

    assert client.mechanism is mechanism
    assert client.first() == f"n,,n=a,r=1{sent}".encode()


@pytest.mark.parametrize(
    ("mechanism", "text", "message"),
    [
        (PLAIN, "ScramLoginModule required username=a password=b;", "needs PlainLoginModule"),
        (SHA_512, "PlainLoginModule required username=a password=b;", "needs ScramLoginModule"),
        (PLAIN, "PlainLoginModule required password=b;", "has no option username$"),
        (SHA_512, "ScramLoginModule required username=a;", "has no option password$"),
        (SHA_512, "ScramLoginModule required;", "no option username and no option password"),
    ],
)
def test_a_configuration_without_credentials_is_refused(
    mechanism: SaslMechanism, text: str, message: str
) -> None:
    with pytest.raises(JaasError, match=f"^sasl.jaas.config .*{message}"):
        credentials(mechanism, text)


def test_oauthbearer_has_no_password() -> None:
    with pytest.raises(ValueError, match="OAUTHBEARER has no password"):
        sasl_client(SaslCredentials(OAUTHBEARER, "a", Secret("b")), bytes)


def test_credentials_are_a_cache_key_that_shows_no_password() -> None:
    """They are pickled for Spark's executors."""
    made = SaslCredentials(SHA_256, "a", Secret("S3cret"), (("tokenauth", "true"),))
    copy = pickle.loads(pickle.dumps(made))

    assert {made: 1}[copy] == 1
    assert "S3cret" not in f"{made} {made!r}"

"""A refused client learns Kafka's error code and message, and the broker logs one event with the
reason. Neither has a secret."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from oncelog.testing.wire import Closed, Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.secret import Secret
from oncelog_protocol.security.login import SaslCredentials, sasl_client
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.oauthbearer_client import OAuthBearerClient
from oncelog_protocol.security.plain_client import PlainClient
from oncelog_protocol.security.sasl_client import AuthenticationFailed, SaslClient
from tests.harness.certificates import Certificates
from tests.harness.waiting import wait_until
from tests.security.conftest import add_scram_user
from tests.security.logins import Login
from tests.security.secured_broker import PASSWORD, USER, SecuredOncelog
from tests.security.secured_wire import SecuredWire, context_of

WRONG: Final = "canary-wrong-password"
FAILED, CLOSED = "authentication failed", "connection closed"
# The time after which the same event is logged again, and a token's lifetime, so that the advanced
# clock of the broker does not end it.
REPEAT_MS, LONG_S = 60_000, 10**8
REPEATED: Final = 3
_CREDENTIALS: Final = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism "
)
_PLAIN_REFUSED: Final = "Authentication failed: Invalid username or password"
_TOKEN_REFUSED: Final = '{"status":"invalid_token"}'
_NO_TLS: Final = "a TLS handshake on a listener for Kafka's protocol without TLS"
_UNTRUSTED: Final = (
    "the certificate of the peer is not valid: unable to get local issuer certificate"
)


@dataclass(frozen=True, slots=True)
class World:
    """A broker, the certificates of its clients, and those of an authority that nothing trusts."""

    broker: SecuredOncelog
    certificates: Certificates
    untrusted: Certificates

    def events(self) -> list[dict[str, Any]]:
        """Return the events of refused clients."""
        lines = self.broker.log.read_text().splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return [event for event in found if event["event"] in (FAILED, CLOSED)]


@pytest.fixture(scope="module")
def refusing(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("refusing")
    with SecuredOncelog(folder, certificates, arguments=["--allow-faults"]) as broker:
        add_scram_user(broker.address_of("PLAINTEXT"), USER, PASSWORD)
        yield World(broker, certificates, Certificates(tmp_path_factory.mktemp("untrusted")))


@pytest.fixture
def world(refusing: World) -> Iterator[World]:
    """The broker has logged no event for a minute, so that it logs the next one at once."""
    refusing.broker.faults.ask("advance", ms=REPEAT_MS)
    yield refusing
    printed = refusing.broker.log.read_text() + refusing.broker.output.read_text()
    assert PASSWORD not in printed
    assert WRONG not in printed


# --- the clients. Each returns the error code and the message that it gets.


def sasl(listener: str, exchange: Callable[[World], SaslClient], world: World) -> tuple[str, str]:
    context = context_of(world.certificates) if listener.endswith("SSL") else None
    with SecuredWire(world.broker.address_of(listener), context) as wire:
        with pytest.raises(AuthenticationFailed) as failure:
            wire.authenticate(exchange(world))
        assert wire.is_closed()
    return failure.value.code.name, str(failure.value)


def password(mechanism: str, user: str, secret: str) -> Callable[[World], SaslClient]:
    credentials = SaslCredentials(SaslMechanism(mechanism), user, Secret(secret))
    return lambda world: sasl_client(credentials, os.urandom)


def bearer(**changed: Any) -> Callable[[World], SaslClient]:
    claims = {"exp": LONG_S * 100} | changed
    return lambda world: OAuthBearerClient(Secret(world.broker.token(**claims)))


def foreign_token(world: World) -> SaslClient:
    """Return a client with a token that another issuer has signed."""
    other = SecuredOncelog(world.broker.directory / "other", world.certificates)
    return OAuthBearerClient(Secret(other.token(exp=LONG_S * 100)))


class Kerberos(PlainClient):
    """A client with a mechanism that the listener does not have."""

    def __init__(self) -> None:
        super().__init__(USER, Secret(WRONG))
        self.mechanism = cast(SaslMechanism, "GSSAPI")


def tls(listener: str, context: Callable[[World], ssl.SSLContext], world: World) -> tuple[str, str]:
    """A client that speaks TLS, and writes a request."""
    try:
        with SecuredWire(world.broker.address_of(listener), context(world)) as wire:
            wire.call(MetadataRequest(topics=None), 9)
    except (ConnectionError, Closed, ssl.SSLEOFError, ssl.SSLZeroReturnError):
        return "closed", ""
    except ssl.SSLError as error:
        return type(error).__name__, error.reason
    raise AssertionError("the client is not refused")


def plain(listener: str, sent: bytes | None, world: World) -> tuple[str, str]:
    """A client without TLS, which sends bytes or else a Metadata request."""
    with Wire(world.broker.address_of(listener)) as wire:
        if sent is None:
            wire.send(MetadataRequest(topics=None), 9)
        else:
            wire.socket.sendall(sent)
        wire.socket.settimeout(20)
        with suppress(ConnectionError):
            while wire.socket.recv(1 << 16):  # an alert of TLS
                pass
    return "closed", ""


Refused = tuple[str, Callable[[World], tuple[str, str]], tuple[str, str], str, str]
_FAILED_58: Final = ErrorCode.SASL_AUTHENTICATION_FAILED.name
_SCRAM: Final = "SCRAM-SHA-256", "SCRAM-SHA-512"

# Name; client; its error code and message; name and reason of the event.
REFUSED: Final[list[Refused]] = [
    (
        "PLAIN wrong password",
        partial(sasl, "SASL_SSL", password("PLAIN", USER, WRONG)),
        (_FAILED_58, _PLAIN_REFUSED),
        FAILED,
        "wrong password: 'alice'",
    ),
    (
        "PLAIN unknown user",
        partial(sasl, "SASL_PLAINTEXT", password("PLAIN", "mallory", WRONG)),
        (_FAILED_58, _PLAIN_REFUSED),
        FAILED,
        "unknown user: 'mallory'",
    ),
    *(
        (
            f"{mechanism} {kind}",
            partial(sasl, listener, password(mechanism, user, WRONG)),
            (_FAILED_58, _CREDENTIALS + mechanism),
            FAILED,
            f"{kind}: {user!r}",
        )
        for listener, mechanism in zip(("SASL_PLAINTEXT", "SASL_SSL"), _SCRAM, strict=True)
        for kind, user in (("wrong password", USER), ("unknown user", "mallory"))
    ),
    (
        "expired token",
        partial(sasl, "SASL_SSL", bearer(iat=1, exp=1_000)),
        (_FAILED_58, _TOKEN_REFUSED),
        FAILED,
        "the token has expired: exp=1000",
    ),
    (
        "token for another service",
        partial(sasl, "SASL_SSL", bearer(aud="payroll")),
        (_FAILED_58, _TOKEN_REFUSED),
        FAILED,
        "the audience is 'payroll'",
    ),
    (
        "token of another issuer's key",
        partial(sasl, "SASL_SSL", foreign_token),
        (_FAILED_58, _TOKEN_REFUSED),
        FAILED,
        "the signature is not of the key with kid='p256'",
    ),
    (
        "no TLS on SSL",
        partial(plain, "SSL", None),
        ("closed", ""),
        FAILED,
        "plain bytes on a TLS listener",
    ),
    (
        "no TLS on SASL_SSL",
        partial(plain, "SASL_SSL", None),
        ("closed", ""),
        FAILED,
        "plain bytes on a TLS listener",
    ),
    (
        "HTTP on SSL",
        partial(plain, "SSL", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("closed", ""),
        FAILED,
        "plain HTTP on a TLS listener",
    ),
    (
        "no SASL on SASL_PLAINTEXT",
        partial(plain, "SASL_PLAINTEXT", None),
        ("closed", ""),
        FAILED,
        "an unexpected request Metadata during SASL authentication",
    ),
    (
        "TLS on PLAINTEXT",
        partial(tls, "PLAINTEXT", lambda world: context_of(world.certificates)),
        ("closed", ""),
        CLOSED,
        _NO_TLS,
    ),
    (
        "TLS on SASL_PLAINTEXT",
        partial(tls, "SASL_PLAINTEXT", lambda world: context_of(world.certificates)),
        ("closed", ""),
        FAILED,
        _NO_TLS,
    ),
    (
        "no client certificate",
        partial(tls, "MUTUAL", lambda world: context_of(world.certificates)),
        ("SSLError", "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
        FAILED,
        "the client has sent no certificate",
    ),
    (
        "untrusted client certificate",
        partial(
            tls,
            "MUTUAL",
            lambda world: context_of(world.certificates, world.untrusted.client("mallory")),
        ),
        ("SSLError", "TLSV1_ALERT_UNKNOWN_CA"),
        FAILED,
        _UNTRUSTED,
    ),
    (
        "untrusted broker",
        partial(tls, "SSL", lambda world: context_of(world.untrusted)),
        ("SSLCertVerificationError", "CERTIFICATE_VERIFY_FAILED"),
        FAILED,
        "the peer does not trust the authority of our certificate",
    ),
]


@pytest.mark.parametrize(
    ("client", "error", "event", "reason"),
    [row[1:] for row in REFUSED],
    ids=[row[0].replace(" ", "-") for row in REFUSED],
)
def test_h7_a_refusal_is_logged_once(
    client: Callable[[World], tuple[str, str]],
    error: tuple[str, str],
    event: str,
    reason: str,
    world: World,
) -> None:
    """Three refused clients of one address cause one event. After a minute the next one causes an
    event with their number."""
    before = len(world.events())
    for _ in range(REPEATED):
        assert client(world) == error
    wait_until(lambda: len(world.events()) > before, "the event of the refusal")
    (logged,) = world.events()[before:]
    assert (logged["event"], logged["count"], logged["peer"]) == (event, 1, "/127.0.0.1")
    assert logged["reason"].startswith(reason)
    world.broker.faults.ask("advance", ms=REPEAT_MS)
    client(world)
    wait_until(lambda: len(world.events()) > before + 1, "the event a minute later")
    (_, later) = world.events()[before:]
    assert later["count"] == REPEATED


def test_an_unknown_mechanism_gets_the_list_of_the_listeners(world: World) -> None:
    with (
        SecuredWire(world.broker.address_of("SASL_PLAINTEXT")) as wire,
        pytest.raises(AuthenticationFailed) as failure,
    ):
        wire.authenticate(Kerberos())
    assert failure.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER" in str(failure.value)
    reason = "the SASL mechanism 'GSSAPI' is not enabled"
    wait_until(lambda: world.events()[-1]["reason"] == reason, "the event")


@pytest.mark.parametrize(
    ("mechanism", "code", "message"),
    [
        ("PLAIN", "_AUTHENTICATION", _PLAIN_REFUSED),
        ("SCRAM-SHA-512", "_AUTHENTICATION", f"{_CREDENTIALS}SCRAM-SHA-512"),
        ("OAUTHBEARER", "_AUTHENTICATION", "invalid_token"),
        (None, "_SSL", "certificate verify failed"),
    ],
)
def test_librdkafka_shows_the_message(
    mechanism: str | None, code: str, message: str, world: World, tmp_path: Path
) -> None:
    """The errors of librdkafka have the broker's message and no secret."""
    trusted = world.untrusted if mechanism is None else world.certificates
    secret = WRONG if mechanism != "OAUTHBEARER" else world.broker.token(iat=1, exp=1_000)
    login = Login(
        "SASL_SSL" if mechanism else "SSL",
        tmp_path,
        authority=trusted.authority_path,
        mechanism=mechanism,
        user=USER,
        secret=secret,
    )
    errors: list[Any] = []
    settings = {
        **login.librdkafka,
        "bootstrap.servers": world.broker.address_of(login.protocol),
        "error_cb": errors.append,
        "log_level": 0,
    }
    admin = AdminClient(settings)

    def shown() -> bool:
        admin.poll(0.1)
        return any(error.name() == code and message in error.str() for error in errors)

    wait_until(shown, f"{code} with {message!r}")
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=0.5)
    assert not any(secret in error.str() for error in errors)

"""Our client authenticates at Kafka's SASL servers, and Kafka's clients at ours."""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

import pytest

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.login import SaslCredentials, sasl_client
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.scram_credential import (
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
)
from oncelog_server.security.resources import Principal
from oncelog_server.security.sasl.exchange import (
    Authenticated,
    AuthenticationRefused,
    Challenge,
    SaslExchange,
)
from oncelog_server.security.sasl.mechanisms import SaslSources, new_exchange
from oncelog_server.security.sasl.plain import PlainUsers
from tests.conformance.sasl.oracle import OracleError, SaslOracle
from tests.examples import drawn

PLAIN, SHA_256, SHA_512 = (
    SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512
)  # fmt: skip
NAMES: Final = {PLAIN: drawn(2_000), SHA_256: drawn(500), SHA_512: drawn(500)}
ITERATIONS: Final = (4096, 4097, 5000)

# The characters that SCRAM escapes come often, and so do the characters of its escape sequences.
ASCII: Final = "".join(map(chr, range(1, 128))) + ",=,=2C3D" * 8
# Accents as a pair, a soft hyphen, numerals and ligatures: SASLprep changes these.
UNICODE: Final = ASCII + "é\u0301\u00adⅨªﬁ\u3000\u0130\U0001f511\u05d0" * 8


class User(NamedTuple):
    name: str
    password: str


def user(seed: int, letters: str) -> User:
    """Return a user. The password may have all characters."""
    chance = Random(seed)
    name = "".join(chance.choices(letters, k=chance.randrange(1, 20)))
    return User(name, "".join(chance.choices(UNICODE, k=chance.randrange(1, 40))))


def our_exchange(mechanism: SaslMechanism, known: User, random: Random) -> SaslExchange:
    iterations = random.choice(ITERATIONS)

    def lookup(scram: ScramMechanism, name: str) -> ScramCredential | None:
        salted = salted_password(scram, known.password, b"salt of 16 bytes", iterations)
        credential = credential_of(scram, b"salt of 16 bytes", salted, iterations)
        return credential if name == known.name else None

    users = PlainUsers({known.name: Secret(known.password)}, b"key")
    return new_exchange(
        mechanism, SaslSources(lookup, random.randbytes, b"secret", plain_users=users)
    )


def authenticate_at_ours(
    oracle: SaslOracle, exchange: SaslExchange, token: bytes
) -> tuple[Principal, bool]:
    """Return the principal, and True if Kafka's client accepts our last token."""
    while True:
        result = exchange.evaluate(token)
        if isinstance(result, Authenticated):
            # A client of PLAIN has no use for a token.
            return result.principal, not result.token or oracle.challenge(result.token).is_complete
        assert isinstance(result, Challenge)
        following = oracle.challenge(result.token).token
        assert following is not None
        token = following


def authenticate_at_kafkas(
    oracle: SaslOracle, mechanism: SaslMechanism, sent: User, random: Random
) -> tuple[str | None, bool]:
    """Return the user's name at Kafka's server, and True if our client accepts its last token."""
    client = sasl_client(
        SaslCredentials(mechanism, sent.name, Secret(sent.password)), random.randbytes
    )
    token: bytes | None = client.first()
    while True:
        assert token is not None
        step = oracle.response(token)
        if not client.is_complete:
            token = client.next(step.token or b"")
        if step.is_complete:
            return step.name, client.is_complete


@pytest.mark.parametrize("mechanism", NAMES)
def test_kafkas_client_authenticates_at_our_server(
    mechanism: SaslMechanism, oracle: SaslOracle
) -> None:
    for seed in range(NAMES[mechanism]):
        known = user(seed, UNICODE)
        exchange = our_exchange(mechanism, known, Random(seed))
        token = oracle.client(mechanism, known.name, known.password)
        principal, accepted = authenticate_at_ours(oracle, exchange, token)
        assert (principal, accepted) == (Principal("User", known.name), True), known


@pytest.mark.parametrize("mechanism", NAMES)
def test_our_client_authenticates_at_kafkas_server(
    mechanism: SaslMechanism, oracle: SaslOracle
) -> None:
    for seed in range(NAMES[mechanism]):
        # Kafka's SCRAM server refuses names outside ASCII, see below.
        known = user(seed, UNICODE if mechanism is PLAIN else ASCII)
        option = f"user_{known.name}" if mechanism is PLAIN else known.name
        random = Random(seed)
        oracle.server(mechanism, {option: known.password}, random.choice(ITERATIONS))
        authenticated = authenticate_at_kafkas(oracle, mechanism, known, random)
        assert authenticated == (known.name, True), known


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_only_our_scram_server_takes_names_outside_ascii(
    mechanism: SaslMechanism, oracle: SaslOracle
) -> None:
    known = User("Ⅸ", "password")
    oracle.server(mechanism, {known.name: known.password})

    with pytest.raises(OracleError, match="Invalid SCRAM client first message format"):
        authenticate_at_kafkas(oracle, mechanism, known, Random(1))

    exchange = our_exchange(mechanism, known, Random(1))
    token = oracle.client(mechanism, known.name, known.password)
    assert authenticate_at_ours(oracle, exchange, token) == (Principal("User", known.name), True)


PLAIN_TOKENS: Final = (
    b"\0alice\0secret", b"alice\0alice\0secret", b"bob\0alice\0secret", b"\0alice\0wrong",
    b"bob\0alice\0wrong", b"\0bob\0secret", b"\0alice\0", b"\0\0secret", b"\0\0", b"\0", b"",
    b"alice\0secret", b"\0alice\0secret\0", b"\0\0\0\0\0", b"\0alice\0\xff\xfe", b"\0\xff\0secret",
    b"\xff\0alice\0secret", b"\0alice\0secret ", b"\0Alice\0secret", b"\0alice\0secre",
)  # fmt: skip


@pytest.mark.parametrize("token", PLAIN_TOKENS)
def test_every_plain_token_is_judged_as_by_kafka(token: bytes, oracle: SaslOracle) -> None:
    oracle.server(PLAIN, {"user_alice": "secret"})
    exchange = our_exchange(PLAIN, User("alice", "secret"), Random(1))

    try:
        theirs: tuple[str, str | None] = ("authenticated", oracle.response(token).name)
    except OracleError as failure:
        theirs = (failure.kind, failure.message)
    try:
        result = exchange.evaluate(token)
        assert isinstance(result, Authenticated)
        ours: tuple[str, str | None] = ("authenticated", result.principal.name)
    except AuthenticationRefused as failure:
        ours = ("SaslAuthenticationException", str(failure))

    assert ours == theirs


FIRST_MESSAGES: Final = (
    b"n,,n=alice,r=abc", b"n,a=alice,n=alice,r=abc", b"n,a=bob,n=alice,r=abc", b"y,,n=alice,r=abc",
    b"p=tls-unique,,n=alice,r=abc", b"n,,n=,r=abc", b"n,,n=alice,r=", b"n,,n=alice",
    b"n,,r=abc,n=alice", b"n,,n=alice,r=abc,x=y", b"n,,n=alice,r=abc,tokenauth=false",
    b"n,,n=alice,r=abc,tokenauth=true", b"n,,n=alice,r=abc,tokenauth=TRUE",
    b"n,,n=alice,r=abc,tokenauth=true,tokenauth=no", b"n,,n=al=2cice,r=abc", b"n,,n=al=ice,r=abc",
    b"n,,n=alice,r=a c", b"n,,n=alice,r=abc,", b"n,,n=alice,r=abc,1=2", b"n,,n=alice,r=abc,x=",
    b"n,,n=ali\xffce,r=abc", b"n,,n=ali\0ce,r=abc", b"n,,n=alice,r=abc\n", b"", b"n,,",
    b"n,a=,n=alice,r=abc", b"N,,n=alice,r=abc", b"n,,n=alice,r=abc,x=y=z", b"n,,n=alice,r=a=c",
)  # fmt: skip


@pytest.mark.parametrize("message", FIRST_MESSAGES)
def test_every_first_message_of_scram_is_judged_as_by_kafka(
    message: bytes, oracle: SaslOracle
) -> None:
    oracle.server(SHA_256, {"alice": "secret"})
    exchange = our_exchange(SHA_256, User("alice", "secret"), Random(1))

    try:
        oracle.response(message)
        theirs = "continued"
    except OracleError as failure:
        theirs = failure.message if failure.kind == "SaslAuthenticationException" else "refused"
    try:
        assert isinstance(exchange.evaluate(message), Challenge)
        ours = "continued"
    except AuthenticationRefused as failure:
        generic = "due to invalid credentials with SASL mechanism SCRAM-SHA-256"
        ours = "refused" if generic in str(failure) else str(failure)

    assert ours == theirs


def test_an_unknown_user_is_refused_later_than_by_kafka(oracle: SaslOracle) -> None:
    """With Kafka, the first message shows that a user does not exist."""
    oracle.server(SHA_256, {"alice": "secret"})
    exchange = our_exchange(SHA_256, User("alice", "secret"), Random(1))

    with pytest.raises(OracleError, match="Invalid user credentials"):
        oracle.response(b"n,,n=bob,r=abc")

    assert isinstance(exchange.evaluate(b"n,,n=bob,r=abc"), Challenge)


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_kafkas_client_accepts_the_form_of_the_messages_to_an_unknown_user(
    mechanism: SaslMechanism, oracle: SaslOracle
) -> None:
    exchange = our_exchange(mechanism, User("alice", "secret"), Random(1))
    challenge = exchange.evaluate(oracle.client(mechanism, "bob", "secret"))
    assert isinstance(challenge, Challenge)
    proof = oracle.challenge(challenge.token).token
    assert proof is not None

    with pytest.raises(AuthenticationRefused):
        exchange.evaluate(proof)


@pytest.mark.parametrize("extensions", [{"tokenauth": "true"}, {"x": "y"}])
def test_extensions_of_kafkas_client(extensions: dict[str, str], oracle: SaslOracle) -> None:
    """Delegation tokens are refused, other extensions are ignored."""
    exchange = our_exchange(SHA_256, User("alice", "secret"), Random(1))
    token = oracle.client(SHA_256, "alice", "secret", extensions)

    if "tokenauth" in extensions:
        with pytest.raises(AuthenticationRefused, match="invalid credentials"):
            exchange.evaluate(token)
    else:
        assert authenticate_at_ours(oracle, exchange, token)[1]

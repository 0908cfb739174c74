"""The broker's side of SCRAM. `tests/conformance/sasl` compares it with Kafka's."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Collection
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramClient as ScrampClient

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.scram_client import ScramClient
from oncelog_protocol.security.scram_credential import (
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
)
from oncelog_protocol.security.scram_messages import (
    auth_message,
    client_final_unproven,
    client_first_bare,
    client_proof,
    parse_server_first,
    proven,
)
from oncelog_server.security.resources import Principal
from oncelog_server.security.sasl.exchange import (
    Authenticated,
    AuthenticationRefused,
    Challenge,
)
from oncelog_server.security.sasl.scram import ScramExchange

SHA_256, SHA_512 = ScramMechanism
PASSWORDS = {"alice": "S3cret", "a,b=c": "x,=", "Ⅸ": "ﬁ\u00ad"}
SALT = b"1lp5ejc5sk7m2tbq0d4k8v3ha2"


def credential(mechanism: ScramMechanism, password: str, iterations: int = 4096) -> ScramCredential:
    salted = salted_password(mechanism, password, SALT, iterations)
    return credential_of(mechanism, SALT, salted, iterations)


CREDENTIALS = {
    (mechanism, name): credential(mechanism, password)
    for mechanism in ScramMechanism
    for name, password in PASSWORDS.items()
}
NUMBERS = count(1)


def exchange(
    mechanism: ScramMechanism = SHA_256,
    secret: bytes = b"secret",
    iterations: Collection[int] = (4096,),
    *,
    reauthentication: bool = False,
) -> ScramExchange:
    return ScramExchange(
        mechanism,
        lambda name: CREDENTIALS.get((mechanism, name)),
        lambda size: (next(NUMBERS) << 6).to_bytes(size, "big"),
        secret,
        lambda: iterations,
        reauthentication=reauthentication,
    )


def client(name: str, password: str, mechanism: ScramMechanism = SHA_256) -> ScramClient:
    return ScramClient(mechanism, name, Secret(password), "fyko+d2lbbFgONRv9qkxdawL")


def challenged(server: ScramExchange, message: bytes) -> bytes:
    """Return the server's first message."""
    result = server.evaluate(message)
    assert isinstance(result, Challenge)
    return result.token


def final_message(server: ScramExchange, sender: ScramClient) -> bytes:
    """Return the client's final message to the server."""
    final = sender.next(challenged(server, sender.first()))
    assert final is not None
    return final


def refused(server: ScramExchange, message: bytes) -> AuthenticationRefused:
    with pytest.raises(AuthenticationRefused) as raised:
        server.evaluate(message)
    return raised.value


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("name", PASSWORDS)
def test_the_password_authenticates_a_user(mechanism: ScramMechanism, name: str) -> None:
    server, sender = exchange(mechanism), client(name, PASSWORDS[name], mechanism)

    result = server.evaluate(final_message(server, sender))

    assert isinstance(result, Authenticated)
    assert result.principal == Principal("User", name)
    assert sender.next(result.token) is None
    assert sender.is_complete


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_scramp_authenticates(mechanism: ScramMechanism) -> None:
    server = exchange(mechanism)
    sender = ScrampClient([mechanism.sasl], "a,b=c", PASSWORDS["a,b=c"])

    sender.set_server_first(challenged(server, sender.get_client_first().encode()).decode())
    result = server.evaluate(sender.get_client_final().encode())
    assert isinstance(result, Authenticated)

    # Raises an exception if the server does not prove that it knows the password.
    sender.set_server_final(result.token.decode())


@pytest.mark.parametrize(
    ("reauthentication", "during"), [(False, "authentication"), (True, "re-authentication")]
)
def test_a_wrong_password_is_refused_with_kafkas_message(
    reauthentication: bool, during: str
) -> None:
    server = exchange(reauthentication=reauthentication)

    refusal = refused(server, final_message(server, client("alice", "wrong")))

    assert str(refusal) == (
        f"Authentication failed during {during} due to invalid credentials with SASL mechanism "
        "SCRAM-SHA-256"
    )
    assert refusal.reason == "wrong password: 'alice'"


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_no_bit_of_the_proof_is_ignored(mechanism: ScramMechanism) -> None:
    size = 256 if mechanism is SHA_256 else 512
    for bit in range(size):
        server = exchange(mechanism)
        final = final_message(server, client("alice", "S3cret", mechanism))
        start, _, proof = final.rpartition(b",p=")
        flipped = bytearray(b64decode(proof))
        flipped[bit // 8] ^= 1 << bit % 8
        message = start + b",p=" + b64encode(flipped)
        assert refused(server, message).reason == "wrong password: 'alice'", bit


def test_a_replayed_final_message_is_refused() -> None:
    first = exchange()
    final = final_message(first, client("alice", "S3cret"))
    assert isinstance(first.evaluate(final), Authenticated)

    second = exchange()
    challenged(second, client("alice", "S3cret").first())

    assert refused(second, final).reason == "the nonce is not that of the broker"


@pytest.mark.parametrize("change", [lambda n: n[:-1], lambda n: n[1:], lambda n: n + b"x"])
@pytest.mark.parametrize("client_part_only", [False, True])
def test_a_nonce_is_compared_whole(
    change: Callable[[bytes], bytes], client_part_only: bool
) -> None:
    """A prefix, a suffix, a longer nonce, and the client's part alone are refused."""
    server, sender = exchange(), client("alice", "S3cret")
    final = final_message(server, sender)
    nonce = final.split(b",")[1].removeprefix(b"r=")
    other = sender.first().rpartition(b"r=")[2] if client_part_only else change(nonce)

    refusal = refused(server, final.replace(nonce, other))

    assert refusal.reason == "the nonce is not that of the broker"


@pytest.mark.parametrize("binding", [b"eSws", b"", b"cD10bHMtdW5pcXVlLCw=", b"bixhPWJvYiw="])
def test_another_channel_binding_in_the_final_message_is_refused(binding: bytes) -> None:
    """The bindings are `y,,`, an empty one, `p=tls-unique,,`, and one with another authorization
    id."""
    server = exchange()
    final = final_message(server, client("alice", "S3cret"))

    refusal = refused(server, final.replace(b"biws", binding))

    assert refusal.reason == "the channel binding is not the header of the first message"


@pytest.mark.parametrize("repeated", ["n,a=a=2Cb=3Dc,", "n,,"])
def test_an_authorization_id_may_be_the_name(repeated: str) -> None:
    """The final message repeats the header, or has the header without an id, as some clients
    send."""
    server = exchange()
    bare = client_first_bare(b"a,b=c", "abc", {})
    challenge = challenged(server, b"n,a=a=2Cb=3Dc," + bare)
    unproven = client_final_unproven(repeated, parse_server_first(challenge).nonce)
    salted = salted_password(SHA_256, PASSWORDS["a,b=c"], SALT, 4096)
    proof = client_proof(SHA_256, salted, auth_message(bare, challenge, unproven))

    assert isinstance(server.evaluate(proven(unproven, proof)), Authenticated)


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_another_authorization_id_is_refused_whether_the_user_exists_or_not(name: str) -> None:
    refusal = refused(exchange(), f"n,a=carol,n={name},r=abc".encode())

    assert str(refusal) == refusal.reason
    assert str(refusal) == (
        "Authentication failed: Client requested an authorization id that is different from "
        "username"
    )


@pytest.mark.parametrize("value", ["true", "TRUE"])
def test_a_delegation_token_is_refused(value: str) -> None:
    refusal = refused(exchange(), f"n,,n=alice,r=abc,tokenauth={value}".encode())

    assert refusal.reason == "delegation tokens are not supported"
    assert "invalid credentials" in str(refusal)


def test_other_extensions_are_ignored_and_signed() -> None:
    sender = ScramClient(
        SHA_256, "alice", Secret("S3cret"), "abc", {"y": "1", "x": "2", "tokenauth": "no"}
    )
    server = exchange()

    assert isinstance(server.evaluate(final_message(server, sender)), Authenticated)


@pytest.mark.parametrize(
    "message",
    [
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"",
        b"\xff",
        b"n,,n=alice,r=" + b"a" * 200_000,
    ],
)
def test_a_wrong_first_message_is_refused_before_the_user_is_looked_up(message: bytes) -> None:
    looked_up: list[str] = []

    def lookup(name: str) -> None:
        looked_up.append(name)

    refusal = refused(ScramExchange(SHA_256, lookup, bytes, b"secret"), message)

    assert refusal.reason == "invalid format of the client's first message"
    assert not looked_up


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_an_unknown_user_gets_the_messages_of_a_wrong_password(mechanism: ScramMechanism) -> None:
    """The form of the salt is that of Kafka's salts, which kafka-configs makes."""
    firsts, refusals = [], []
    for name in ("alice", "bob"):
        server, sender = exchange(mechanism), client(name, "wrong", mechanism)
        challenge = challenged(server, sender.first())
        final = sender.next(challenge)
        assert final is not None
        firsts.append(parse_server_first(challenge))
        refusals.append(refused(server, final))
    wrong, unknown = firsts

    assert len(wrong.nonce) == len(unknown.nonce)
    assert wrong.iterations == unknown.iterations
    assert set(unknown.salt) <= set(b"0123456789abcdefghijklmnopqrstuvwxyz")
    assert 20 <= len(unknown.salt) <= len(wrong.salt) == 26
    assert str(refusals[0]) == str(refusals[1])
    assert [refusal.reason for refusal in refusals] == [
        "wrong password: 'alice'", "unknown user: 'bob'",
    ]  # fmt: skip


def test_the_salt_of_an_unknown_user_stays_the_same() -> None:
    """The salt depends on the name, the mechanism and the secret."""

    def salt(name: str, mechanism: ScramMechanism, secret: bytes) -> bytes:
        first = challenged(exchange(mechanism, secret), f"n,,n={name},r=abc".encode())
        return parse_server_first(first).salt

    assert salt("bob", SHA_256, b"secret") == salt("bob", SHA_256, b"secret")
    assert len({
        salt("bob", SHA_256, b"secret"), salt("bobby", SHA_256, b"secret"),
        salt("bob", SHA_512, b"secret"), salt("bob", SHA_256, b"other"),
    }) == 4  # fmt: skip


def unknown_iterations(in_use: Collection[int], mechanism: ScramMechanism = SHA_256) -> list[int]:
    """Return the iterations that 1,000 unknown users get."""
    return [
        parse_server_first(
            challenged(exchange(mechanism, iterations=in_use), f"n,,n=user{number},r=abc".encode())
        ).iterations
        for number in range(1_000)
    ]


def test_unknown_users_have_the_iterations_of_the_others_and_keep_them() -> None:
    both = unknown_iterations((4096, 16384))
    assert both == unknown_iterations((16384, 4096))
    assert both != unknown_iterations((4096, 16384), SHA_512)
    assert min(Counter(both).values()) > 400
    assert set(both) == {4096, 16384}
    assert set(unknown_iterations((8192,))) == {8192}


def test_a_new_number_of_iterations_changes_only_the_users_that_get_it() -> None:
    before, after = (
        unknown_iterations((4096, 16384)),
        unknown_iterations((4096, 8192, 16384)),
    )
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert set(changed) == {8192}
    assert 250 < len(changed) < 420


def test_an_unknown_user_costs_the_hashes_of_a_wrong_password(
    hashes: Callable[[Callable[[], object]], list[str]],
) -> None:
    def work(name: str) -> list[list[str]]:
        server = exchange()
        first, challenge = client(name, "x").first(), b""

        def begin() -> None:
            nonlocal challenge
            challenge = challenged(server, first)

        begun = hashes(begin)
        nonce = parse_server_first(challenge).nonce
        final = f"c=biws,r={nonce},p={'A' * 43}=".encode()
        return [begun, hashes(lambda: refused(server, final))]

    known = work("alice")

    assert known == work("bob")
    assert all(known)


@pytest.mark.parametrize("iterations", [1, 4_095])
def test_a_credential_with_few_iterations_is_refused_as_an_unknown_user(iterations: int) -> None:
    weak = credential(SHA_256, "S3cret", iterations)
    server = ScramExchange(SHA_256, lambda _: weak, bytes, b"secret")

    refusal = refused(server, final_message(server, client("alice", "S3cret")))

    assert refusal.reason == f"{iterations} iterations, of user 'alice', are too few"


@pytest.mark.parametrize("iterations", [4_096, 16_384])
def test_a_credential_has_its_own_iterations(iterations: int) -> None:
    strong = credential(SHA_256, "S3cret", iterations)
    server = ScramExchange(SHA_256, lambda _: strong, bytes, b"secret")

    assert isinstance(
        server.evaluate(final_message(server, client("alice", "S3cret"))), Authenticated
    )


@given(st.binary() | st.text("cnr=,abip+/biws", max_size=60).map(str.encode), st.booleans())
def test_any_bytes_are_judged_or_refused(message: bytes, first: bool) -> None:
    server = exchange()
    if not first:
        challenged(server, b"n,,n=alice,r=abc")

    try:
        result: object = server.evaluate(message)
    except AuthenticationRefused as refusal:
        result = refusal
    assert not isinstance(result, Authenticated)

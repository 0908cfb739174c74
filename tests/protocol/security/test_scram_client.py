"""The client's side of SCRAM: the example of RFC 7677, scramp, and servers that lie."""

from __future__ import annotations

import pickle
from base64 import b64encode

import pytest
from scramp import ScramMechanism as Scramp

from oncelog_protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from oncelog_protocol.messages.sasl_handshake import SaslHandshakeResponse
from oncelog_protocol.secret import Secret
from oncelog_protocol.security import scram_client
from oncelog_protocol.security.plain_client import PlainClient
from oncelog_protocol.security.sasl_client import SaslClientError
from oncelog_protocol.security.scram_client import ScramClient, _salted, preparation
from oncelog_protocol.security.scram_credential import ScramMechanism, salted_password

NONCE = "rOprNGfwEbeRWgbNEkqO"  # RFC 7677, section 3
SERVER_NONCE = NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = f"r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
SHA_256 = ScramMechanism.SCRAM_SHA_256


def client(name: str = "user", password: str = "pencil") -> ScramClient:
    return ScramClient(SHA_256, name, Secret(password), NONCE)


def waiting_client() -> ScramClient:
    """Return a client that has sent its final message."""
    started = client()
    started.first()
    assert started.next(SERVER_FIRST)
    return started


def test_an_exchange_is_that_of_rfc_7677() -> None:
    started = client()

    assert started.first() == f"n,,n=user,r={NONCE}".encode()
    assert started.next(SERVER_FIRST) == (
        f"c=biws,r={SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    )
    assert not started.is_complete
    assert started.next(SERVER_FINAL) is None
    assert started.is_complete


def test_the_slow_part_of_a_step_can_run_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a thread, for example. The step itself then computes no PBKDF2."""
    computed: list[int] = []

    def recorded(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
        computed.append(iterations)
        return salted_password(mechanism, password, salt, iterations)

    monkeypatch.setattr(scram_client, "salted_password", recorded)
    _salted.cache_clear()
    started = client()
    started.first()
    response = SaslAuthenticateResponse(auth_bytes=SERVER_FIRST)
    work = preparation(started, response)
    assert work is not None
    assert not computed
    work()
    assert computed == [4096]
    assert started.next(SERVER_FIRST)
    assert computed == [4096]
    assert preparation(started, SaslAuthenticateResponse(auth_bytes=SERVER_FINAL)) is None


@pytest.mark.parametrize(
    "response",
    [
        SaslHandshakeResponse(),
        SaslAuthenticateResponse(error_code=58, auth_bytes=SERVER_FIRST),
        SaslAuthenticateResponse(auth_bytes=b"no message"),
        SaslAuthenticateResponse(auth_bytes=SERVER_FIRST.replace(b"i=4096", b"i=2000000000")),
        SaslAuthenticateResponse(auth_bytes=SERVER_FIRST.replace(b"r=", b"r=x")),
    ],
)
def test_a_response_that_will_be_refused_has_no_slow_part(
    response: SaslHandshakeResponse | SaslAuthenticateResponse,
) -> None:
    started = client()
    started.first()
    assert preparation(started, response) is None
    assert preparation(PlainClient("alice", Secret("x")), response) is None


def test_a_process_computes_the_salted_password_of_a_user_once() -> None:
    """PBKDF2 takes 8 ms, and a worker of Spark opens several connections. A pickled password is
    the same password."""
    first = client(password="once").first()
    _salted.cache_clear()
    for password in ("once", "once", "twice"):
        secret = pickle.loads(pickle.dumps(Secret(password)))
        started = ScramClient(SHA_256, "user", secret, NONCE)
        assert started.first() == first
        assert started.next(SERVER_FIRST)
    assert _salted.cache_info()[:2] == (1, 2)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_scramp_accepts_the_client(mechanism: ScramMechanism) -> None:
    scramp = Scramp(mechanism.sasl)
    stored = scramp.make_auth_info("pass,=word", 5000, b"salt of 16 bytes")
    server = scramp.make_server({"al,=ice": stored}.__getitem__)
    started = ScramClient(mechanism, "al,=ice", Secret("pass,=word"), "nonce")

    server.set_client_first(started.first().decode())
    final = started.next(server.get_server_first().encode())
    assert final is not None
    server.set_client_final(final.decode())

    assert started.next(server.get_server_final().encode()) is None
    assert started.is_complete


def test_a_name_is_escaped_and_extensions_follow_the_nonce() -> None:
    started = ScramClient(SHA_256, "a,b=c", Secret("x"), "nonce", {"tokenauth": "true"})

    assert started.first() == b"n,,n=a=2Cb=3Dc,r=nonce,tokenauth=true"


@pytest.mark.parametrize(
    "nonce",
    ["", "x", NONCE, NONCE[:-1], f"x{NONCE}", NONCE.lower() + "xyz", f"{SERVER_NONCE[1:]}xyz"],
)
def test_a_nonce_that_does_not_continue_the_clients_is_refused(nonce: str) -> None:
    """A prefix, a suffix, the client's own nonce, another nonce of a replayed exchange."""
    started = client()
    started.first()

    with pytest.raises(SaslClientError, match=r"nonce|invalid format"):
        started.next(f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())


@pytest.mark.parametrize("iterations", [0, 1, 4_095, 1_000_001, 10**9])
def test_iterations_out_of_range_are_refused_before_any_work(iterations: int) -> None:
    started = client()
    started.first()

    with pytest.raises(SaslClientError, match=f"{iterations} iterations, not 4096 to 1000000"):
        started.next(f"r={SERVER_NONCE},s=YWJj,i={iterations}".encode())


@pytest.mark.parametrize("iterations", [4_096, 16_384])
def test_iterations_in_range_are_accepted(iterations: int) -> None:
    started = client()
    started.first()

    assert started.next(f"r={SERVER_NONCE},s=YWJj,i={iterations}".encode())


def test_no_bit_of_the_servers_signature_is_ignored() -> None:
    signature = bytes.fromhex("eabae24d1062db75a9451ff0b6ea7e98c8546549ff741e672d3251b2397de46e")
    assert b"v=" + b64encode(signature) == SERVER_FINAL
    for bit in range(256):
        flipped = bytearray(signature)
        flipped[bit // 8] ^= 1 << bit % 8
        waiting = waiting_client()
        with pytest.raises(SaslClientError, match="the broker does not know the password"):
            waiting.next(b"v=" + b64encode(flipped))
        assert not waiting.is_complete


@pytest.mark.parametrize("message", [b"", b"v=", b"x", b"v=YWJj", SERVER_FIRST, SERVER_FINAL[:-4]])
def test_a_wrong_final_message_does_not_complete_the_exchange(message: bytes) -> None:
    waiting = waiting_client()

    with pytest.raises(SaslClientError):
        waiting.next(message)
    assert not waiting.is_complete


def test_an_error_of_the_server_is_reported() -> None:
    with pytest.raises(SaslClientError, match="the broker reports 'other-error'"):
        waiting_client().next(b"e=other-error")


def test_a_servers_final_message_in_place_of_its_first_is_refused() -> None:
    started = client()
    started.first()

    with pytest.raises(SaslClientError, match="invalid format of the server's first message"):
        started.next(SERVER_FINAL)


def test_a_token_after_the_last_is_refused() -> None:
    started = waiting_client()
    started.next(SERVER_FINAL)

    with pytest.raises(SaslClientError, match="after the last token"):
        started.next(SERVER_FINAL)


@pytest.mark.parametrize(
    ("name", "password", "field"),
    [
        ("a\0b", "x", "the user name contains a NUL"),
        ("\ud800", "x", "the user name contains a surrogate"),
        ("a", "S3cret\0", "the password contains a NUL"),
        ("a", "S3cret\udc80", "the password contains a surrogate"),
        ("", "x", "the user name must not be empty"),
    ],
)
def test_text_that_no_message_can_hold_is_refused(name: str, password: str, field: str) -> None:
    with pytest.raises(SaslClientError, match=field) as refused:
        client(name, password).first()
    assert "S3cret" not in str(refused.value)

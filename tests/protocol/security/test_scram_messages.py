"""The messages of SCRAM: the example of RFC 7677, the grammar, and random input."""

from __future__ import annotations

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.security.scram_credential import (
    ScramMechanism,
    credential_of,
    salted_password,
)
from oncelog_protocol.security.scram_messages import (
    GS2_HEADER,
    MOST_NONCE_LENGTH,
    RANDOM_BYTES,
    InvalidScramMessage,
    auth_message,
    client_final_unproven,
    client_first_bare,
    client_proof,
    is_proof,
    parse_client_final,
    parse_client_first,
    parse_server_final,
    parse_server_first,
    proven,
    random_text,
    server_final,
    server_first,
    signature_of,
)

# RFC 7677, section 3.
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
NONCE = CLIENT_NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_FIRST = f"n,,n=user,r={CLIENT_NONCE}".encode()
SERVER_FIRST = f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
CLIENT_FINAL = f"c=biws,r={NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

SHA_256 = ScramMechanism.SCRAM_SHA_256
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
NONCES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters=","))
WORDS = st.text("abcXYZ", min_size=1)
VALUES = st.text("ab=1é ", min_size=1)


def test_the_messages_are_those_of_rfc_7677() -> None:
    salted = salted_password(SHA_256, "pencil", SALT, 4096)
    credential = credential_of(SHA_256, SALT, salted, 4096)
    bare = client_first_bare(b"user", CLIENT_NONCE, {})
    unproven = client_final_unproven(GS2_HEADER, NONCE)
    message = auth_message(bare, server_first(NONCE, SALT, 4096), unproven)

    assert GS2_HEADER.encode() + bare == CLIENT_FIRST
    assert server_first(NONCE, SALT, 4096) == SERVER_FIRST
    assert proven(unproven, client_proof(SHA_256, salted, message)) == CLIENT_FINAL
    assert server_final(signature_of(SHA_256, credential.server_key, message)) == SERVER_FINAL


def test_the_messages_of_rfc_7677_are_read() -> None:
    first, final = parse_client_first(CLIENT_FIRST), parse_client_final(CLIENT_FINAL)
    salted = salted_password(SHA_256, "pencil", SALT, 4096)
    credential = credential_of(SHA_256, SALT, salted, 4096)
    message = auth_message(first.bare, SERVER_FIRST, final.unproven)

    assert first[:5] == ("n,,", "", "user", CLIENT_NONCE, {})
    assert parse_server_first(SERVER_FIRST) == (NONCE, SALT, 4096)
    assert (final.binding, final.nonce) == (b"n,,", NONCE)
    assert is_proof(SHA_256, credential.stored_key, message, final.proof)
    assert parse_server_final(SERVER_FINAL) == (None, b64decode(SERVER_FINAL[2:]))


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_no_bit_of_a_proof_is_ignored(mechanism: ScramMechanism) -> None:
    salted = salted_password(mechanism, "pencil", SALT, 4096)
    stored_key = credential_of(mechanism, SALT, salted, 4096).stored_key
    proof = client_proof(mechanism, salted, b"message")

    assert is_proof(mechanism, stored_key, b"message", proof)
    for bit in range(len(proof) * 8):
        flipped = bytearray(proof)
        flipped[bit // 8] ^= 1 << bit % 8
        assert not is_proof(mechanism, stored_key, b"message", bytes(flipped)), bit


@pytest.mark.parametrize("proof", [b"", b"x", b"x" * 31, b"x" * 33, b"x" * 64])
def test_a_proof_of_another_length_is_none(proof: bytes) -> None:
    assert not is_proof(SHA_256, b"k" * 32, b"message", proof)


@given(NAMES, NONCES.filter(bool), st.dictionaries(WORDS, VALUES))
def test_a_first_message_is_read_as_written(
    name: str, nonce: str, extensions: dict[str, str]
) -> None:
    bare = client_first_bare(name.encode(), nonce, extensions)

    first = parse_client_first(b"n,," + bare)

    assert first == ("n,,", "", name, nonce, extensions, bare)


@given(NONCES.filter(bool), st.binary(), st.integers(0, 2**31))
def test_a_servers_first_message_is_read_as_written(
    nonce: str, salt: bytes, iterations: int
) -> None:
    assert parse_server_first(server_first(nonce, salt, iterations)) == (nonce, salt, iterations)


@given(NONCES.filter(bool), st.binary())
def test_a_final_message_is_read_as_written(nonce: str, proof: bytes) -> None:
    unproven = client_final_unproven(GS2_HEADER, nonce)

    assert parse_client_final(proven(unproven, proof)) == (b"n,,", nonce, proof, unproven)


def test_an_authorization_id_is_unescaped() -> None:
    first = parse_client_first(b"n,a==2C=3D2C,n==2C=3D2C,r=abc")

    assert (first.header, first.authorization_id, first.name) == ("n,a==2C=3D2C,", ",=2C", ",=2C")


@pytest.mark.parametrize(
    "message",
    [
        b"y,,n=user,r=abc",  # channel binding
        b"p=tls-unique,,n=user,r=abc",
        b"n,,m=x,n=user,r=abc",  # reserved for extensions that a server must know
        b"n,,n=us=er,r=abc",
        b"n,,n=us=2cer,r=abc",
        b"n,,n=us\0er,r=abc",
        b"n,,n=us\xffer,r=abc",
        b"n,,n=user,r=\xc3\xa9",
        b"n,,n=user,r=abc\n",
        b"n,,n=user,r=" + b"a" * (MOST_NONCE_LENGTH + 1),
        b"n,,n=user,r=" + b"a" * 200_000,
    ],
)
def test_a_wrong_first_message_is_invalid(message: bytes) -> None:
    with pytest.raises(InvalidScramMessage, match=r"^invalid format of the client's first message"):
        parse_client_first(message)


def test_the_longest_nonce_of_a_client_has_a_final_message() -> None:
    nonce = "a" * MOST_NONCE_LENGTH

    assert parse_client_first(f"n,,n=user,r={nonce}".encode()).nonce == nonce
    assert parse_client_final(f"c=biws,r={nonce}bcd,p=".encode()).nonce == f"{nonce}bcd"


@pytest.mark.parametrize(
    "message",
    [
        b"r=abc,s=****,i=4096",
        b"r=abc,s=abc,i=4096",
        b"r=abc,s=YWJj,i=-1",
        b"r=abc,s=YWJj,i=",
        b"r=abc,s=YWJj,i=12345678901",
        b"r=abc,s=YWJj,i=" + b"9" * 5_000,
        b"m=x,r=abc,s=YWJj,i=4096",
        b"r=,s=YWJj,i=4096",
        b"e=other-error",
        b"",
    ],
)
def test_a_wrong_first_message_of_a_server_is_invalid(message: bytes) -> None:
    with pytest.raises(InvalidScramMessage):
        parse_server_first(message)


@given(st.binary() | st.text("nca=,ryp2C3Dims", max_size=30).map(str.encode))
def test_any_bytes_are_a_message_or_invalid(message: bytes) -> None:
    for parse in (parse_client_first, parse_server_first, parse_client_final, parse_server_final):
        try:
            parsed: object = parse(message)
        except InvalidScramMessage as failure:
            parsed = failure
        assert parsed


@given(st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES + 8))
def test_random_text_has_kafkas_form(random: bytes) -> None:
    """Up to 26 digits and lower case letters, which have the value of 130 random bits."""
    text = random_text(random)

    assert int(text, 36) == int.from_bytes(random[:17], "big") >> 6
    assert len(text) <= 26
    assert text == "0" or text.lstrip("0") == text.lower()

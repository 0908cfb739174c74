"""The messages of OAUTHBEARER: what a client writes a broker reads, and malformed messages are
refused without their token."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.oauthbearer import (
    InitialResponse,
    OAuthBearerError,
    read_failure,
    read_initial_response,
    write_failure,
    write_initial_response,
)

TOKEN = "eyJ.-_~+/x=="
NAMES = st.from_regex(re.compile(r"[A-Za-z]{1,8}", re.ASCII), fullmatch=True).filter(
    lambda name: name != "auth"
)
VALUES = st.text("ab=,; \t\r\n~!", min_size=1, max_size=8)


@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_a_broker_reads_what_a_client_writes(extensions: dict[str, str]) -> None:
    message = write_initial_response(Secret(TOKEN), extensions)
    assert read_initial_response(message) == InitialResponse(Secret(TOKEN), "", extensions)


def test_the_message_has_the_form_of_the_rfc() -> None:
    message = write_initial_response(Secret("t"), {"traceId": "1", "cluster": "a b"})
    assert message == b"n,,\x01auth=Bearer t\x01traceId=1\x01cluster=a b\x01\x01"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"n,,\x01auth=bearer t\x01\x01", ("t", "", {})),
        (b"n,,\x01auth=BEARER   t=\x01\x01", ("t=", "", {})),
        (b"n,a=al=2Cice,\x01auth=Bearer t\x01\x01", ("t", "al=2Cice", {})),
        (
            b"n,,\x01host=h\x01auth=Bearer t\x01port=9\x01\x01",
            ("t", "", {"host": "h", "port": "9"}),
        ),
        (b"n,,\x01auth=Basic x\x01auth=Bearer t\x01\x01", ("t", "", {})),
        (b"n,,\x01auth=Bearer t\x01k=v=w\x01\x01", ("t", "", {"k": "v=w"})),
    ],
)
def test_a_broker_accepts_other_forms(
    message: bytes, expected: tuple[str, str, dict[str, str]]
) -> None:
    token, name, extensions = expected
    assert read_initial_response(message) == InitialResponse(Secret(token), name, extensions)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"y,,\x01auth=Bearer S3cret\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer S3cret\x01\x01",
        b"n,\x01auth=Bearer S3cret\x01\x01",
        b"n,,\x01auth=Bearer S3cret\x01",
        b"n,,\x01auth=Bearer S3cret\x01\x01\n",
        b"n,,auth=Bearer S3cret\x01\x01",
        b"n,,\x01\x01",
        b"n,,\x01host=S3cret\x01\x01",
        b"n,,\x01auth=Basic S3cret\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=BearerS3cret\x01\x01",
        b"n,,\x01auth=Bearer S3=cret\x01\x01",
        b"n,,\x01auth=Bearer S3cret \x01\x01",
        b"n,,\x01auth=Bearer S3cret,x\x01\x01",
        b"n,,\x01auth=Bearer S3cret\xff\x01\x01",
        b"n,,\x01auth=Bearer S3cret\x01key1=v\x01\x01",
        b"n,,\x01auth=Bearer S3cret\x01key=\x01\x01",
        b"n,a=,\x01auth=Bearer S3cret\x01\x01",
        b"n,a=a=2cb,\x01auth=Bearer S3cret\x01\x01",
        b"n,a=a\x00b,\x01auth=Bearer S3cret\x01\x01",
    ],
)
def test_a_malformed_message_is_refused_without_its_token(message: bytes) -> None:
    with pytest.raises(OAuthBearerError) as caught:
        read_initial_response(message)
    assert "S3" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "S3cret\x01", "S3 cret", "S3cret\n", "S3crét", "=", "S3=c"])
def test_a_token_that_no_broker_accepts_is_not_sent(token: str) -> None:
    with pytest.raises(OAuthBearerError) as caught:
        write_initial_response(Secret(token), {})
    assert "S3" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("auth", "x", "'auth' is reserved"),
        ("", "x", "only letters"),
        ("a1", "x", "only letters"),
        ("é", "x", "only letters"),
        ("a\n", "x", "only letters"),
        ("a", "", "value of the SASL extension a"),
        ("a", "S3cret\x01", "value of the SASL extension a"),
        ("a", "S3crét", "value of the SASL extension a"),
    ],
)
def test_a_malformed_extension_is_refused_without_its_value(
    name: str, value: str, message: str
) -> None:
    with pytest.raises(OAuthBearerError, match=message) as caught:
        write_initial_response(Secret("t"), {name: value})
    assert "S3" not in str(caught.value)


def test_the_response_never_shows_the_token() -> None:
    assert TOKEN not in repr(InitialResponse(Secret(TOKEN), "", {}))


def test_a_failure_has_the_form_of_kafka() -> None:
    assert write_failure("invalid_token") == b'{"status":"invalid_token"}'
    scoped = write_failure("insufficient_scope", '["a"]')
    assert scoped.startswith(b'{"status":"insufficient_scope", "scope":"')
    assert json.loads(scoped) == {"status": "insufficient_scope", "scope": '["a"]'}


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (write_failure("invalid_token"), "invalid_token"),
        (b'{"status": 7}', "7"),
        (b'{"error": "x"}', '{"error": "x"}'),
        (b"[]", "[]"),
        (b"\xff", "�"),
        (b"x" * 1000, "x" * 200),
        (b"[" * 100_000, "[" * 200),
    ],
    ids=range(7),
)
def test_the_status_of_any_failure_is_shown(message: bytes, shown: str) -> None:
    assert read_failure(message) == shown

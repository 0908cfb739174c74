"""The request for a token and its response, in the form of Kafka's ClientSecretRequestFormatter and
JwtResponseParser (tests/conformance/oauthbearer compares them)."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote_plus, unquote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.core.client_credentials import (
    ClientCredentials,
    form_encoded,
    read_response,
    request_body,
    request_headers,
)
from oncelog_client.core.oauth_token import AccessToken, OAuthTokenError
from oncelog_protocol.secret import Secret
from tests.harness.bearer_tokens import NOW_MS, NOW_S, claims, part

JWT = f"{part({'alg': 'RS256'})}.{part(claims())}.AAAA"


def credentials(**changed: Any) -> ClientCredentials:
    return ClientCredentials("id", Secret("S3cret"))._replace(**changed)


def basic(**changed: Any) -> str:
    scheme, _, text = request_headers(credentials(**changed))["Authorization"].partition(" ")
    assert scheme == "Basic"
    return base64.b64decode(text).decode()


def test_the_secret_is_in_the_header_and_not_in_the_form() -> None:
    assert basic() == "id:S3cret"
    assert basic(client_id=" i:d ", client_secret=Secret(" é/+ ")) == "i:d:é/+"
    encoded = basic(client_id="i:d", client_secret=Secret("é/+ x"), header_urlencode=True)
    assert encoded == "i%3Ad:%C3%A9%2F%2B+x"
    assert request_body(credentials()) == b"grant_type=client_credentials"
    assert request_body(credentials(scope=" a b/c ")) == (
        b"grant_type=client_credentials&scope=a+b%2Fc"
    )
    assert "S3cret" not in repr(credentials())


@given(st.text())
def test_a_form_is_encoded_as_the_standard_says(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    assert unquote_plus(form_encoded(text)) == text
    # Python leaves `~` as it is, and Java `*`; both are right.
    assert form_encoded(text).replace("%7E", "~") == quote_plus(text, safe="*")


@pytest.mark.parametrize(
    ("body", "token"),
    [
        (
            {"access_token": JWT},
            AccessToken(Secret(JWT), (NOW_S + 600) * 1000, (NOW_S - 60) * 1000),
        ),
        ({"access_token": " opaque "}, AccessToken(Secret("opaque"))),
        ({"access_token": "o", "expires_in": 60}, AccessToken(Secret("o"), NOW_MS + 60_000)),
        ({"access_token": "o", "expires_in": True}, AccessToken(Secret("o"))),
        ({"access_token": "o", "expires_in": -1}, AccessToken(Secret("o"))),
        ({"access_token": " ", "id_token": "i"}, AccessToken(Secret("i"))),
        ({"access_token": 7, "id_token": "i"}, AccessToken(Secret("i"))),
    ],
)
@pytest.mark.parametrize("status", [200, 201])
def test_a_response_has_a_token(body: dict[str, Any], token: AccessToken, status: int) -> None:
    assert read_response(status, json.dumps(body).encode(), NOW_MS) == token


@pytest.mark.parametrize(
    "body", [b"", b"S3cret", b"[]", b'{"token": "S3cret"}', b'{"access_token": " "}', b"\xff"]
)
def test_a_response_without_a_token_is_not_shown(body: bytes) -> None:
    with pytest.raises(OAuthTokenError, match="has no `access_token`") as caught:
        read_response(200, body, NOW_MS)
    assert "S3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "body", "message", "is_retriable"),
    [
        (401, {"error": "invalid_client"}, "status 401: invalid_client", False),
        (
            400,
            {"error": "invalid_scope", "error_description": "no such scope"},
            "status 400: invalid_scope - no such scope",
            False,
        ),
        (403, {"errorCode": "E7", "errorSummary": "no"}, "status 403: E7 - no", False),
        (404, {}, "status 404", False),
        (302, {}, "status 302", True),
        (429, {}, "status 429", True),
        (500, {"error": 7}, "status 500", True),
        (503, [], "status 503", True),
    ],
)
def test_another_status_is_an_error_with_the_issuers_reason(
    status: int, body: object, message: str, is_retriable: bool
) -> None:
    with pytest.raises(OAuthTokenError) as caught:
        read_response(status, json.dumps(body).encode(), NOW_MS)
    assert str(caught.value) == f"the token endpoint responded with {message}"
    assert caught.value.is_retriable is is_retriable


def test_a_long_reason_is_cut() -> None:
    body = json.dumps({"error": "e" * 10_000}).encode()
    with pytest.raises(OAuthTokenError) as caught:
        read_response(400, body, NOW_MS)
    assert len(str(caught.value)) < 600

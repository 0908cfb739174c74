"""The client's exchange of OAUTHBEARER: one message, and a response to a failure."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from oncelog_protocol.messages.sasl_handshake import SaslHandshakeResponse
from oncelog_protocol.secret import Secret
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.oauthbearer_client import OAuthBearerClient
from oncelog_protocol.security.sasl_client import (
    AuthenticationFailed,
    SaslClientError,
    authenticate,
)

FAILURE = b'{"status":"invalid_token"}'


def client() -> OAuthBearerClient:
    return OAuthBearerClient(Secret("S3cret"), {"a": "b"})


def test_an_accepted_token_ends_the_exchange() -> None:
    exchange = client()
    assert exchange.mechanism is SaslMechanism.OAUTHBEARER
    assert exchange.first() == b"n,,\x01auth=Bearer S3cret\x01a=b\x01\x01"
    assert not exchange.is_complete
    assert exchange.next(b"") is None
    assert exchange.is_complete
    with pytest.raises(SaslClientError):
        exchange.next(b"")


def test_a_refused_token_gets_the_dummy_response_and_is_never_complete() -> None:
    exchange = client()
    exchange.first()
    assert exchange.next(FAILURE) == b"\x01"
    assert not exchange.is_complete
    with pytest.raises(SaslClientError, match="the broker refused the token: invalid_token"):
        exchange.next(b"")


def test_a_token_that_no_broker_accepts_is_an_error_without_the_token() -> None:
    with pytest.raises(SaslClientError) as caught:
        OAuthBearerClient(Secret("S3cret\n")).first()
    assert "S3cret" not in str(caught.value)


def test_the_requests_of_an_authentication_end_with_the_broker_s_error() -> None:
    requests = authenticate(client(), 1, 2)
    next(requests)
    requests.send(SaslHandshakeResponse(error_code=0, mechanisms=["OAUTHBEARER"]))
    answer = SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=FAILURE)
    assert requests.send(answer) == SaslAuthenticateRequest(auth_bytes=b"\x01")
    refused = SaslAuthenticateResponse(
        error_code=58, error_message=FAILURE.decode(), auth_bytes=b""
    )
    with pytest.raises(AuthenticationFailed, match="invalid_token") as caught:
        requests.send(refused)
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_the_lifetime_of_the_session_is_the_result() -> None:
    requests = authenticate(client(), 1, 2)
    next(requests)
    requests.send(SaslHandshakeResponse(error_code=0, mechanisms=["OAUTHBEARER"]))
    with pytest.raises(StopIteration) as ended:
        requests.send(
            SaslAuthenticateResponse(
                error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=5
            )
        )
    assert ended.value.value == 5

"""The client's secret goes to the configured endpoint only, in bounded time."""

from __future__ import annotations

import threading
import traceback

import pytest
import trustme

from oncelog.testing.ports import free_ports
from oncelog_client.core.oauth_token import OAuthTokenError
from oncelog_client.errors import ConfigError
from oncelog_client.io.token_endpoint import TokenEndpoint
from oncelog_protocol.tls.http_exchange import MOST_BYTES, HttpResponse
from tests.harness.https_issuer import always, dribbling, serving, trusting

HEADERS = {"Authorization": "Basic S3cret"}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://issuer.test/token", "http is allowed only for this computer"),
        ("http://localhost.evil.test/", "http is allowed only for this computer"),
        ("ftp://issuer.test/token", "must be an https: URL"),
        ("file:///token", "must be an https: URL"),
        ("https:///token", "must be an https: URL"),
        ("https://issuer.test:0/", "must be an https: URL"),
        ("https://issuer.test:x/", "is not a URL"),
        ("https://id:S3cret@issuer.test/", "must not contain a user name"),
        ("https://issuer.test/to ken", "percent-encode"),
    ],
)
def test_an_unsafe_url_is_refused(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        TokenEndpoint(url)
    assert "sasl.oauthbearer.token.endpoint.url" in str(caught.value)
    assert "S3cret" not in str(caught.value)


def test_the_form_goes_over_https(authority: trustme.CA) -> None:
    with serving(always(b"{}", 201), authority) as web:
        endpoint = TokenEndpoint(web.url("/token?v=1"), trusting(authority))
        assert endpoint.post(HEADERS, b"a=b") == HttpResponse(201, b"{}")
        (request,) = web.requests
    assert (request.method, request.path, request.body) == ("POST", "/token?v=1", b"a=b")
    assert request.headers["Host"] == f"localhost:{web.port}"
    assert request.headers["Authorization"] == "Basic S3cret"


def test_the_secret_is_not_sent_to_an_untrusted_server(authority: trustme.CA) -> None:
    for other, host in ((trustme.CA(), "localhost"), (authority, "127.0.0.1")):
        with serving(always(b"{}"), other) as web:
            endpoint = TokenEndpoint(web.url(host=host), trusting(authority))
            with pytest.raises(OAuthTokenError, match="CERTIFICATE_VERIFY_FAILED") as caught:
                endpoint.post(HEADERS, b"")
        assert not web.requests
        assert caught.value.is_retriable


def test_a_redirect_is_not_followed() -> None:
    with serving(always(b"", 307, Location="/other")) as web:
        assert TokenEndpoint(web.url()).post(HEADERS, b"").status == 307
    assert len(web.requests) == 1


def test_at_most_a_mebibyte_is_read() -> None:
    with serving(always(b"x" * MOST_BYTES)) as web:
        assert len(TokenEndpoint(web.url()).post(HEADERS, b"").body) == MOST_BYTES
    with (
        serving(always(b"x" * (MOST_BYTES + 1))) as web,
        pytest.raises(OAuthTokenError, match="more than 1048576 bytes"),
    ):
        TokenEndpoint(web.url()).post(HEADERS, b"")


@pytest.mark.parametrize(
    "head", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"]
)
def test_a_slow_response_ends_at_the_deadline(head: bytes, authority: trustme.CA) -> None:
    stop = threading.Event()
    with serving(dribbling(stop, head), authority) as web:
        endpoint = TokenEndpoint(web.url(), trusting(authority), timeout_s=0.3)
        with pytest.raises(OAuthTokenError, match=r"no whole response within 0\.3 s"):
            endpoint.post(HEADERS, b"")
        stop.set()


def test_a_closed_port_is_a_retriable_failure_without_the_secret() -> None:
    (port,) = free_ports(1)
    with pytest.raises(OAuthTokenError, match="ConnectionRefusedError") as caught:
        TokenEndpoint(f"http://localhost:{port}/").post(HEADERS, b"")
    assert caught.value.is_retriable
    assert "S3cret" not in "".join(traceback.format_exception(caught.value))

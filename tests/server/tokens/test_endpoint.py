"""The keys come from the configured address only, in bounded time and size."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest
import trustme

from oncelog.testing.ports import free_ports
from oncelog_protocol.tls.http_exchange import MOST_BYTES
from oncelog_server.security.sasl.oauth_settings import OAuthSettingsError
from oncelog_server.tokens.endpoint import (
    FileEndpoint,
    HttpEndpoint,
    JwksUnavailable,
    endpoint_of,
)
from tests.harness.https_issuer import always, dribbling, response, serving, trusting

JWKS = b'{"keys": []}'


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://issuer.test/keys", "http is allowed only for this computer"),
        ("http://10.0.0.1/keys", "http is allowed only for this computer"),
        ("http://127.evil.test/keys", "http is allowed only for this computer"),
        ("http://localhost.evil.test/", "http is allowed only for this computer"),
        ("ftp://issuer.test/keys", "must be an https: or file: URL"),
        ("issuer.test/keys", "must be an https: or file: URL"),
        ("https:///keys", "must be an https: or file: URL"),
        ("https://issuer.test:0/keys", "must be an https: or file: URL"),
        ("https://issuer.test:99999/keys", "not a URL"),
        ("https://[::1/keys", "not a URL"),
        ("https://user:S3cret@issuer.test/keys", "must not contain a user name"),
        ("https://issuer.test/ke ys", "percent-encode"),
        ("https://issuer.test/kéys", "percent-encode"),
        ("file://issuer.test/etc/keys", "write the whole path"),
        ("file:keys", "write the whole path"),
        ("file:///a%00b", "write the whole path"),
    ],
)
def test_an_unsafe_url_is_refused(url: str, message: str) -> None:
    with pytest.raises(OAuthSettingsError, match=message) as caught:
        endpoint_of(url)
    assert "sasl.oauthbearer.jwks.endpoint.url" in str(caught.value)
    assert "S3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://issuer.test/keys",
        "https://issuer.test:8443",
        "http://localhost:80/keys",
        "http://127.0.0.2/keys",
        "http://[::1]:8080/keys",
    ],
)
def test_https_and_http_of_this_computer_are_allowed(url: str) -> None:
    assert isinstance(endpoint_of(url), HttpEndpoint)


def test_the_keys_come_over_https(authority: trustme.CA) -> None:
    with serving(always(JWKS), authority) as web:
        assert endpoint_of(web.url("/keys?v=1"), trusting(authority)).fetch() == JWKS
        (request,) = web.requests
    assert (request.method, request.path) == ("GET", "/keys?v=1")
    assert request.headers["Host"] == f"localhost:{web.port}"


def test_a_certificate_of_another_authority_is_refused(authority: trustme.CA) -> None:
    with (
        serving(always(JWKS), trustme.CA()) as web,
        pytest.raises(JwksUnavailable, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        endpoint_of(web.url(), trusting(authority)).fetch()


def test_a_certificate_of_another_host_is_refused(authority: trustme.CA) -> None:
    with (
        serving(always(JWKS), authority) as web,
        pytest.raises(JwksUnavailable, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        endpoint_of(web.url(host="127.0.0.1"), trusting(authority)).fetch()


def test_a_redirect_within_the_host_is_followed() -> None:
    with serving(
        lambda request: iter(
            [response(JWKS) if request.path == "/b" else response(b"", 302, Location="/b")]
        )
    ) as web:
        assert endpoint_of(web.url("/a")).fetch() == JWKS
        assert [request.path for request in web.requests] == ["/a", "/b"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "location", ["http://evil.test/keys", "//evil.test/keys", "http://localhost:1/", "https:/keys"]
)
def test_a_redirect_to_another_host_is_refused(status: int, location: str) -> None:
    with (
        serving(always(b"", status, Location=location)) as web,
        pytest.raises(JwksUnavailable, match="redirects to"),
    ):
        endpoint_of(web.url()).fetch()
    assert len(web.requests) == 1


def test_a_redirect_to_a_file_is_refused() -> None:
    with (
        serving(always(b"", 302, Location="file:///etc/passwd")) as web,
        pytest.raises(JwksUnavailable, match="scheme 'file'"),
    ):
        endpoint_of(web.url()).fetch()


def test_redirects_end() -> None:
    with (
        serving(always(b"", 302, Location="/keys")) as web,
        pytest.raises(JwksUnavailable, match="more than 3 times"),
    ):
        endpoint_of(web.url()).fetch()
    assert len(web.requests) == 4


@pytest.mark.parametrize("status", [204, 304, 401, 404, 500])
def test_another_status_is_a_failure(status: int) -> None:
    with (
        serving(always(JWKS, status)) as web,
        pytest.raises(JwksUnavailable, match=f"status {status}"),
    ):
        endpoint_of(web.url()).fetch()


def test_at_most_a_mebibyte_is_read() -> None:
    with serving(always(b"x" * MOST_BYTES)) as web:
        assert len(endpoint_of(web.url()).fetch()) == MOST_BYTES
    with (
        serving(always(b"x" * (MOST_BYTES + 1))) as web,
        pytest.raises(JwksUnavailable, match="more than 1048576 bytes"),
    ):
        endpoint_of(web.url()).fetch()


@pytest.mark.parametrize(
    "head", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"]
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_slow_response_ends_at_the_deadline(
    head: bytes, scheme: str, authority: trustme.CA
) -> None:
    """Each byte comes in time, so that the timeout of the socket alone would never end it."""
    stop = threading.Event()
    with serving(dribbling(stop, head), authority if scheme == "https" else None) as web:
        context = trusting(authority) if scheme == "https" else None
        with pytest.raises(JwksUnavailable, match=r"no whole response within 0\.3 s"):
            HttpEndpoint(web.url(), context, timeout_s=0.3).fetch()
        stop.set()


def test_a_server_that_never_shakes_hands_ends_at_the_deadline(authority: trustme.CA) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://localhost:{silent.getsockname()[1]}/keys"
        with pytest.raises(JwksUnavailable, match=r"no whole response within 0\.2 s"):
            HttpEndpoint(url, trusting(authority), timeout_s=0.2).fetch()


def test_a_closed_port_and_a_foreign_protocol_are_failures() -> None:
    (port,) = free_ports(1)
    with pytest.raises(JwksUnavailable, match="ConnectionRefusedError"):
        endpoint_of(f"http://localhost:{port}/").fetch()
    with (
        serving(lambda _: iter([b"SSH-2.0-x\r\n"])) as web,
        pytest.raises(JwksUnavailable, match="BadStatusLine"),
    ):
        endpoint_of(web.url()).fetch()


def test_the_keys_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "the keys"
    path.write_bytes(JWKS)
    endpoint = endpoint_of(f"file://{tmp_path}/the%20keys")
    assert isinstance(endpoint, FileEndpoint)
    assert endpoint.fetch() == JWKS
    path.write_bytes(b"x" * (MOST_BYTES + 1))
    with pytest.raises(JwksUnavailable, match="more than 1048576 bytes"):
        endpoint.fetch()
    path.unlink()
    with pytest.raises(JwksUnavailable, match="not a file"):
        endpoint.fetch()
    os.mkfifo(path)
    with pytest.raises(JwksUnavailable, match="not a file"):
        endpoint.fetch()

"""A response is read and closed, also that of an error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.error import HTTPError

import pytest

from tests.harness.http_response import read_response
from tests.harness.waiting import DEADLINE_S


class _Ready(BaseHTTPRequestHandler):
    """Responds to /ready, and with 503 to every other path."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/ready" else 503)
        self.end_headers()
        self.wfile.write(b"body")

    def log_message(self, format: str, *values: object) -> None:
        """Log nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Ready) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join(DEADLINE_S)


def test_the_body_of_a_response_is_returned(url: str) -> None:
    assert read_response(f"{url}/ready", DEADLINE_S) == b"body"


def test_the_response_of_an_error_is_closed(url: str) -> None:
    with pytest.raises(HTTPError) as refused:
        read_response(f"{url}/soon", DEADLINE_S)
    assert refused.value.code == 503
    assert refused.value.closed

"""The response to one HTTP request of a test."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request


def read_response(
    request: urllib.request.Request | str, timeout_s: float, context: ssl.SSLContext | None = None
) -> bytes:
    """Send a request and return the body of the response. Raises HTTPError for an error of the
    server, and another OSError without a response. The connection is closed in each case."""
    try:
        response = urllib.request.urlopen(request, timeout=timeout_s, context=context)
    except urllib.error.HTTPError as error:
        # The error is a response too, and holds the connection until it is closed.
        error.close()
        raise
    with response:
        content: bytes = response.read()
        return content

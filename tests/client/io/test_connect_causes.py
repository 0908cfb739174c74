"""The reason of a failed TLS handshake is named, whatever exception Python raises."""

from __future__ import annotations

import ssl

import pytest

from oncelog_client.connect_failures import Address, ConnectCause
from oncelog_client.io.connect_causes import tls_failure

ADDRESS: Address = ("broker", 9093)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(),
        ConnectionAbortedError(),
        ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
        # Python 3.11.2, which Debian 12 has.
        ssl.SSLZeroReturnError(6, "TLS/SSL connection has been closed (EOF)"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_peer_that_closes_during_the_handshake_is_named_as_such(error: OSError) -> None:
    failure = tls_failure(ADDRESS, error)
    assert failure is not None
    assert failure.cause is ConnectCause.CLOSED


def test_another_error_is_none_of_tls() -> None:
    assert tls_failure(ADDRESS, OSError("no route")) is None

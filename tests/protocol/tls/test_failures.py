"""A reason without words of its own keeps OpenSSL's name."""

from __future__ import annotations

import ssl

from oncelog_protocol.tls.failures import reason_of


def test_other_reasons_keep_their_name() -> None:
    error = ssl.SSLError()
    error.reason = "SOME_NEW_REASON"
    assert reason_of(error) == "some new reason"
    error.reason = ""
    assert reason_of(error) == "an unknown failure of OpenSSL"
    error.reason = "WRONG_VERSION_NUMBER"
    assert reason_of(error, is_server=False) == "the listener does not speak TLS"

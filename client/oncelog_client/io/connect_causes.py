"""The causes of failed connects, from the exceptions of the event loop and of OpenSSL."""

from __future__ import annotations

import errno
import re
import socket
from typing import TYPE_CHECKING, Final

from oncelog_client.connect_failures import Address, ConnectCause, ConnectFailure
from oncelog_client.errors import AuthenticationError, ConnectError

if TYPE_CHECKING:
    from ssl import SSLError

_CAUSES: Final[dict[int, ConnectCause]] = {
    errno.ECONNREFUSED: ConnectCause.REFUSED,
    errno.ECONNRESET: ConnectCause.CLOSED,
    errno.ETIMEDOUT: ConnectCause.TIMED_OUT,
    errno.EHOSTUNREACH: ConnectCause.UNREACHABLE,
    errno.ENETUNREACH: ConnectCause.UNREACHABLE,
    errno.EADDRNOTAVAIL: ConnectCause.UNREACHABLE,
}
# For these causes, the text of the system's error adds no information.
_COMPLETE: Final = (ConnectCause.REFUSED, ConnectCause.TIMED_OUT)
_ERRNO: Final = r"\[Errno (\d+)\]"

# Reasons of OpenSSL -> the cause. Alerts come from the broker, and have their names of RFC 8446.
_TLS_CAUSES: Final[dict[str, ConnectCause]] = {
    "CERTIFICATE_VERIFY_FAILED": ConnectCause.UNTRUSTED,
    "HTTP_REQUEST": ConnectCause.HTTP,
    "RECORD_LAYER_FAILURE": ConnectCause.PLAINTEXT,
    "WRONG_VERSION_NUMBER": ConnectCause.PLAINTEXT,
    **dict.fromkeys(
        (
            "SSLV3_ALERT_BAD_CERTIFICATE",
            "SSLV3_ALERT_CERTIFICATE_EXPIRED",
            "SSLV3_ALERT_CERTIFICATE_REVOKED",
            "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
            "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
            "TLSV13_ALERT_CERTIFICATE_REQUIRED",
            "TLSV1_ALERT_ACCESS_DENIED",
            "TLSV1_ALERT_DECRYPT_ERROR",
            "TLSV1_ALERT_UNKNOWN_CA",
        ),
        ConnectCause.CERTIFICATE_REFUSED,
    ),
}
# OpenSSL's codes of X509_verify_cert for a host name and for an IP address (x509_vfy.h).
_MISMATCHES: Final = (62, 64)
# The codes for a certificate that is not valid yet, or has expired.
_WRONG_DATES: Final = (9, 10)
_CLOSED_DURING_TLS: Final = (
    "during the TLS handshake; is it a listener with security.protocol PLAINTEXT or SASL_PLAINTEXT?"
)


def connect_error(failure: ConnectFailure) -> ConnectError | AuthenticationError:
    """Return the exception of a failed connect."""
    if failure.cause.is_authentication:
        return AuthenticationError(failures=(failure,))
    return ConnectError(failure)


def connect_failure(
    address: Address, error: Exception, timeout_s: float, *, tls: bool = False
) -> ConnectFailure:
    """Return the reason of a failed connect, from the exception of the event loop. `tls`: the
    connect included a TLS handshake."""
    if isinstance(error, socket.gaierror):
        known = error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None))
        detail = "" if known else error.strerror or str(error)
        return ConnectFailure(address, ConnectCause.NO_SUCH_HOST, detail)
    if tls and (failure := tls_failure(address, error)) is not None:
        return failure
    if isinstance(error, OSError):
        # For a name with several addresses the loop raises one error. The text of this error has
        # the error numbers.
        numbers = [error.errno] if error.errno else map(int, re.findall(_ERRNO, str(error)))
        causes = [_CAUSES.get(number, ConnectCause.FAILED) for number in numbers]
        if isinstance(error, TimeoutError) and not causes:
            detail = f"tried for {timeout_s:g} s"
            return ConnectFailure(address, ConnectCause.TIMED_OUT, detail)
        # A refusal by a host explains more than a missing route to another address.
        cause = next((c for c in _CAUSES.values() if c in causes), ConnectCause.FAILED)
        return ConnectFailure(address, cause, "" if cause in _COMPLETE else str(error))
    return ConnectFailure(address, ConnectCause.BAD_ADDRESS, str(error))


def tls_failure(address: Address, error: BaseException | None) -> ConnectFailure | None:
    """Return the reason of a failed TLS handshake, or None for an error that is not of TLS. With
    TLS 1.3 the broker judges the client's certificate after the client's part of the handshake, so
    that the error may come when the connection ends."""
    import ssl

    # The peer has closed the connection. An event loop raises ConnectionResetError without a
    # number, a blocking socket SSLEOFError, and with early versions of Python 3.11
    # SSLZeroReturnError.
    closed = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, ConnectionAbortedError)
    if isinstance(error, closed):
        return ConnectFailure(address, ConnectCause.CLOSED, _CLOSED_DURING_TLS)
    return _of_openssl(address, error) if isinstance(error, ssl.SSLError) else None


def _of_openssl(address: Address, error: SSLError) -> ConnectFailure:
    from oncelog_protocol.tls.failures import reason_of

    if getattr(error, "verify_code", 0) in _MISMATCHES:
        return ConnectFailure(address, ConnectCause.WRONG_HOST, _verify_message(error))
    if getattr(error, "verify_code", 0) in _WRONG_DATES:
        return ConnectFailure(address, ConnectCause.NOT_VALID_NOW, _verify_message(error))
    cause = _TLS_CAUSES.get(error.reason or "", ConnectCause.TLS_FAILED)
    if cause is ConnectCause.UNTRUSTED:
        return ConnectFailure(address, cause, _verify_message(error))
    shows_more = cause in (ConnectCause.CERTIFICATE_REFUSED, ConnectCause.TLS_FAILED)
    return ConnectFailure(address, cause, reason_of(error) if shows_more else "")


def _verify_message(error: SSLError) -> str:
    return str(getattr(error, "verify_message", "")).rstrip(".")

"""OpenSSL's reasons of failures, in plain words."""

from __future__ import annotations

import ssl
from typing import Final

_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
_SERVER_WORDS: Final = {
    "HTTP_REQUEST": "plain HTTP on a TLS listener",
    "HTTPS_PROXY_REQUEST": "plain HTTP on a TLS listener",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has sent no certificate",
    **dict.fromkeys(_NOT_TLS, "plain bytes on a TLS listener"),
}
_CLIENT_WORDS: Final = {
    **dict.fromkeys(_NOT_TLS, "the listener does not speak TLS"),
}
_WORDS: Final = {
    "CA_KEY_TOO_SMALL": "a certificate in the chain has a key that is too short",
    "CA_MD_TOO_WEAK": "a certificate in the chain has a signature that is too weak",
    "DECRYPTION_FAILED_OR_BAD_RECORD_MAC": "a damaged record",
    "EE_KEY_TOO_SMALL": "a certificate with a key that is too short",
    "EE_MD_TOO_WEAK": "a certificate with a signature that is too weak",
    "KEY_VALUES_MISMATCH": "a key that does not fit its certificate",
    "NO_SHARED_CIPHER": "no cipher suite in common",
    "NO_SUITABLE_SIGNATURE_ALGORITHM": "no signature algorithm in common",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the peer refuses our certificate as invalid",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the peer refuses our certificate as expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the peer refuses our certificate",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the peer has no version or cipher suite in common with us",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "the peer refuses the type of our certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the peer requires a certificate (ssl.client.auth)",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the peer refuses our TLS versions",
    "TLSV1_ALERT_UNKNOWN_CA": "the peer does not trust the authority of our certificate",
    "UNSUPPORTED_PROTOCOL": "the peer speaks no TLS version of ssl.enabled.protocols",
}


def reason_of(error: ssl.SSLError, *, is_server: bool = True) -> str:
    """Return the reason of a failure in plain words, or OpenSSL's own name of it in lower case."""
    if isinstance(error, ssl.SSLCertVerificationError):
        message = error.verify_message.rstrip(".")
        return f"the certificate of the peer is not valid: {message[:1].lower()}{message[1:]}"
    reason = error.reason or ""
    words = (_SERVER_WORDS if is_server else _CLIENT_WORDS).get(reason) or _WORDS.get(reason)
    return words or reason.replace("_", " ").lower() or "an unknown failure of OpenSSL"

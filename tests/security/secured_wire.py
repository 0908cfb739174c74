"""A connection for raw requests, over TLS and after SASL if the test wants these."""

from __future__ import annotations

import ssl
from typing import Final

from oncelog.testing.wire import Wire
from oncelog_protocol.security.sasl_client import SaslClient, SaslRequest, authenticate
from tests.harness.certificates import Certificates, Identity

_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2


class SecuredWire(Wire):
    """A `Wire` with TLS if `context` is given. Raises ssl.SSLError and OSError if the handshake
    fails."""

    def __init__(self, address: str, context: ssl.SSLContext | None = None) -> None:
        super().__init__(address)
        if context is not None:
            try:
                self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
            except BaseException:
                self.socket.close()
                raise

    def authenticate(self, client: SaslClient) -> int:
        """Authenticate by SASL. Return the lifetime of the session in ms, 0 for no limit. Raises
        AuthenticationFailed, and Closed."""
        steps = authenticate(client, _HANDSHAKE_VERSION, _AUTHENTICATE_VERSION)
        request: SaslRequest = next(steps)
        while True:
            is_handshake = type(request).__name__ == "SaslHandshakeRequest"
            version = _HANDSHAKE_VERSION if is_handshake else _AUTHENTICATE_VERSION
            try:
                request = steps.send(self.call(request, version))
            except StopIteration as done:
                return int(done.value)


def context_of(
    certificates: Certificates, identity: Identity | None = None, *, trusts: bool = True
) -> ssl.SSLContext:
    """Return the context of a client. Without `trusts`, it trusts only the system's authorities."""
    authority = str(certificates.authority_path) if trusts else None
    context = ssl.create_default_context(cafile=authority)
    if identity is not None:
        context.load_cert_chain(identity.pem_path)
    return context

"""The admission of a listener with TLS, SASL or both."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_protocol.tls.engine import TlsEngine
from oncelog_server.requests.authentication import Authentication, Peer, SaslRules
from oncelog_server.requests.response import Serve
from oncelog_server.requests.session import Session
from oncelog_server.security.audit import GroupedEvents, kind_of
from oncelog_server.security.protocols import SecurityProtocol
from oncelog_server.security.resources import ANONYMOUS, Principal

# Returns the principal of a certificate in DER. Raises AuthenticationRefused.
CertificatePrincipal = Callable[[bytes], Principal]


class SecuredAdmission:
    """`new_engine`, `expiry_ms`, `check_certificate` and `of_certificate` are None without TLS,
    `sasl` is None without SASL."""

    def __init__(
        self,
        listener: str,
        protocol: SecurityProtocol,
        events: GroupedEvents,
        *,
        new_engine: Callable[[], TlsEngine] | None = None,
        expiry_ms: Callable[[], int | None] | None = None,
        check_certificate: Callable[[bytes], None] | None = None,
        of_certificate: CertificatePrincipal | None = None,
        sasl: SaslRules | None = None,
        max_unauthenticated_bytes: int,
    ) -> None:
        self.listener = listener
        self.protocol = protocol
        self.max_unauthenticated_bytes = max_unauthenticated_bytes
        self.failures = self.expired = 0
        self._events = events
        self._new_engine = new_engine
        self._expiry_ms = expiry_ms
        self._check_certificate = check_certificate
        self._of_certificate = of_certificate
        self._sasl = sasl

    def new_tls(self) -> TlsEngine:
        assert self._new_engine is not None
        return self._new_engine()

    @property
    def certificate_expires_ms(self) -> int | None:
        return None if self._expiry_ms is None else self._expiry_ms()

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Return the principal of a client's certificate in DER. Raises AuthenticationRefused.

        With SASL the principal is that of SASL, as in Kafka's DefaultKafkaPrincipalBuilder.
        """
        if certificate is not None and self._check_certificate is not None:
            self._check_certificate(certificate)
        if certificate is None or self._of_certificate is None or self._sasl is not None:
            return ANONYMOUS
        return self._of_certificate(certificate)

    def new_authentication(self, peer: Peer, serve: Serve) -> Authentication:
        assert self._sasl is not None
        return Authentication(self._sasl, peer, serve)

    def refused(self, session: Session, reason: str) -> None:
        self.failures += 1
        # An address has an event for each of the first reasons of a kind, and one for its other
        # reasons of the kind. If too many addresses are refused, the further addresses share an
        # event for each listener and kind of reason.
        group = self.listener, kind_of(reason)
        self._events.add(
            (session.host, *group),
            group,
            listener=self.listener,
            peer=session.address,
            reason=reason,
        )

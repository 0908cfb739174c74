"""The certificates of one TLS listener, and the principals of its clients' certificates."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from oncelog_protocol.security.certificate import expiry_ms
from oncelog_protocol.security.der import DerError
from oncelog_protocol.security.tls_settings import TlsSettings, TlsSettingsError
from oncelog_protocol.tls.contexts import load_server
from oncelog_protocol.tls.engine import TlsEngine
from oncelog_protocol.tls.reload import file_versions, refused_reload, wrong_date
from oncelog_server.security.distinguished_name import distinguished_name
from oncelog_server.security.principal_rules import NoRuleApplies, PrincipalRules
from oncelog_server.security.resources import Principal
from oncelog_server.security.sasl.exchange import AuthenticationRefused

log = structlog.get_logger("oncelog.network")

_NOT_RELOADED: Final = "certificates not reloaded"


class ListenerTls:
    """TLS of one listener. Raises ValueError, which names the setting, if a store or a rule cannot
    be used."""

    def __init__(
        self,
        listener: str,
        settings: TlsSettings,
        mapping_rules: str,
        wall_ms: Callable[[], int],
        *,
        allow_dn_changes: bool,
        allow_san_changes: bool,
        name_as_set: Callable[[str], str] = str,
    ) -> None:
        self._listener = listener
        self._settings = settings
        self._allow_dn_changes = allow_dn_changes
        self._allow_san_changes = allow_san_changes
        self._rules = PrincipalRules(mapping_rules)
        self._wall_ms = wall_ms
        self._files = file_versions(settings)
        self._name_as_set = name_as_set
        try:
            self._loaded = load_server(settings)
        except TlsSettingsError as error:
            raise TlsSettingsError(name_as_set(error.setting), error.reason) from None
        if (reason := _wrong_date(self._loaded.chain, wall_ms())) is not None:
            self._log_certificate(log.warning, "certificate not valid", reason)

    def expiry_ms(self) -> int | None:
        """Return the time at which a certificate of the chain expires, in ms since the epoch.
        Return None if it cannot be read."""
        with suppress(DerError):
            return expiry_ms(self._loaded.chain)
        return None

    def new_engine(self) -> TlsEngine:
        """Return the broker's side of a new connection."""
        return TlsEngine(self._loaded.context)

    def check_certificate(self, certificate: bytes) -> None:
        """Check the end of a client's certificate in DER again. Raises AuthenticationRefused if it
        has expired or cannot be read.

        OpenSSL checks it in each handshake with a certificate. A client with TLS 1.2 may resume its
        session instead, for two hours after such a handshake."""
        try:
            not_after_ms = expiry_ms((certificate,))
        except DerError as error:
            raise AuthenticationRefused("Authentication failed", str(error)) from None
        if self._wall_ms() > not_after_ms:
            reason = "the certificate of the peer is not valid: certificate has expired"
            raise AuthenticationRefused("Authentication failed", reason)

    def principal_of(self, certificate: bytes) -> Principal:
        """Return the principal of a client's certificate in DER. Raises AuthenticationRefused if
        its name cannot be read, or no rule matches it."""
        try:
            return Principal("User", self._rules.name_of(distinguished_name(certificate)))
        except (DerError, NoRuleApplies) as error:
            raise AuthenticationRefused("Authentication failed", str(error)) from None

    def reload_if_changed(self) -> None:
        """Reload if a file of the stores has changed since they were read."""
        if file_versions(self._settings) != self._files:
            self.reload()

    def reload(self) -> None:
        """Read the stores again for new connections. If they cannot be used, the old certificates
        stay, and an event says why."""
        self._files = file_versions(self._settings)
        try:
            loaded = load_server(self._settings)
        except TlsSettingsError as error:
            unusable = f"{self._name_as_set(error.setting)}: {error.reason}"
            self._log_certificate(log.error, _NOT_RELOADED, unusable)
            return
        reason = refused_reload(
            self._loaded,
            loaded,
            now_ms=self._wall_ms(),
            allow_dn_changes=self._allow_dn_changes,
            allow_san_changes=self._allow_san_changes,
        )
        if reason is not None:
            self._log_certificate(log.error, _NOT_RELOADED, reason)
            return
        self._loaded = loaded
        log.info("certificates reloaded", listener=self._listener)

    def _log_certificate(self, log_at: Callable[..., None], event: str, reason: str) -> None:
        """Log an event about the listener's own certificate, with the setting and file of it."""
        location = self._settings.keystore_location
        in_file = location is not None
        setting = "ssl.keystore.location" if in_file else "ssl.keystore.certificate.chain"
        log_at(
            event,
            listener=self._listener,
            setting=self._name_as_set(setting),
            **({"file": location} if in_file else {}),
            reason=reason,
        )


def _wrong_date(chain: tuple[bytes, ...], now_ms: int) -> str | None:
    try:
        return wrong_date(chain, now_ms)
    except DerError as error:
        return f"a certificate has {error}"

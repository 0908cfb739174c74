"""The certificates of one TLS listener, and the principals of its clients' certificates."""

from __future__ import annotations

import structlog

from oncelog_protocol.security.tls_settings import TlsSettings, TlsSettingsError
from oncelog_protocol.tls.contexts import load_server
from oncelog_protocol.tls.engine import TlsEngine
from oncelog_protocol.tls.reload import refusal_of
from oncelog_server.security.distinguished_name import distinguished_name
from oncelog_server.security.principal_rules import NoRuleApplies, PrincipalRules
from oncelog_server.security.resources import Principal
from oncelog_server.security.sasl.exchange import AuthenticationRefused

log = structlog.get_logger("oncelog.network")


class ListenerTls:
    """TLS of one listener. Raises ValueError, which names the setting, if a store or a rule cannot
    be used."""

    def __init__(
        self,
        listener: str,
        settings: TlsSettings,
        mapping_rules: str,
        *,
        allow_dn_changes: bool,
        allow_san_changes: bool,
    ) -> None:
        self._listener = listener
        self._settings = settings
        self._allow_dn_changes = allow_dn_changes
        self._allow_san_changes = allow_san_changes
        self._rules = PrincipalRules(mapping_rules)
        self._loaded = load_server(settings)

    def new_engine(self) -> TlsEngine:
        """Return the broker's side of a new connection."""
        return TlsEngine(self._loaded.context)

    def principal_of(self, certificate: bytes) -> Principal:
        """Return the principal of a client's certificate in DER. Raises AuthenticationRefused if no
        rule matches its name."""
        try:
            return Principal("User", self._rules.name_of(distinguished_name(certificate)))
        except NoRuleApplies as error:
            raise AuthenticationRefused("Authentication failed", str(error)) from None

    def reload(self) -> None:
        """Read the stores again for new connections. If they cannot be used, the old certificates
        stay, and an event says why."""
        try:
            loaded = load_server(self._settings)
            reason = refusal_of(
                self._loaded.chain,
                loaded.chain,
                allow_dn_changes=self._allow_dn_changes,
                allow_san_changes=self._allow_san_changes,
            )
        except TlsSettingsError as error:
            reason = str(error)
        if reason is not None:
            log.error("certificates not reloaded", listener=self._listener, reason=reason)
        elif loaded.chain != self._loaded.chain:
            self._loaded = loaded
            log.info("certificates reloaded", listener=self._listener)

"""The TLS context and the credentials of a client, made at its first connect: the files of keys and
certificates are read then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from oncelog_client.core.client_config import ClientConfig

if TYPE_CHECKING:
    from ssl import SSLContext

    from .authentication import Login


class ClientSecurity(NamedTuple):
    """The security of all connections of a client: `tls` is None without TLS, `login` without
    SASL."""

    tls: SSLContext | None = None
    login: Login | None = None


NO_SECURITY: Final = ClientSecurity()


def client_security(config: ClientConfig) -> ClientSecurity:
    """Return the security of a client. Raises ConfigError, which names the setting, for a file that
    is missing or unusable."""
    if not (config.has_tls or config.has_sasl):
        # The usual case imports no module of TLS or SASL.
        return NO_SECURITY
    return ClientSecurity(
        _tls(config) if config.has_tls else None, _login(config) if config.has_sasl else None
    )


def _tls(config: ClientConfig) -> SSLContext:
    from oncelog_client.core.tls_config import setting_error, tls_settings
    from oncelog_protocol.security.tls_settings import TlsSettingsError
    from oncelog_protocol.tls.contexts import client_context

    try:
        return client_context(tls_settings(vars(config)))
    except TlsSettingsError as error:
        raise setting_error(error) from None


def _login(config: ClientConfig) -> Login:
    from .authentication import Login

    return Login(config)

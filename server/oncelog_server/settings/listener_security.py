"""The security of one listener, from the settings that are in force for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.hosts import is_loopback
from oncelog_protocol.security.jaas import JaasModule, LoginModule, jaas_module, plain_users
from oncelog_protocol.security.jaas_syntax import JaasError
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.store_rules import check_listener, check_stores
from oncelog_protocol.security.tls_settings import TlsSettings, TlsSettingsError
from oncelog_server.security.sasl.oauth_settings import (
    OAuthSettings,
    OAuthSettingsError,
    check,
    unsecured_options,
)
from oncelog_server.settings.listener_settings import JAAS, PREFIX, ListenerSetting
from oncelog_server.settings.listeners import ListenerAddress
from oncelog_server.settings.model import Settings

MECHANISMS: Final = "sasl.enabled.mechanisms"
WITHOUT_TLS: Final = "oncelog.sasl.plain.without.tls"
# The login module that each mechanism needs in its JAAS configuration.
_MODULES: Final = {
    SaslMechanism.PLAIN: LoginModule.PLAIN,
    SaslMechanism.SCRAM_SHA_256: LoginModule.SCRAM,
    SaslMechanism.SCRAM_SHA_512: LoginModule.SCRAM,
    SaslMechanism.OAUTHBEARER: LoginModule.OAUTHBEARER,
}


class SecurityProblem(ValueError):
    """A setting of a listener's security is wrong. `setting` is its name."""

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(reason)
        self.setting = setting


def tls_settings(settings: Settings, listener: ListenerAddress) -> TlsSettings:
    """Return the settings of a listener's TLS. With SASL, only the listener's own setting makes
    clients show a certificate, as in Kafka."""
    own = settings.of_listener(listener.name)
    client_auth = own.ssl_client_auth
    if listener.protocol.has_sasl:
        named = ListenerSetting(listener.name, None, "ssl.client.auth")
        client_auth = client_auth if named in settings.of_listeners else "none"
    return TlsSettings(
        keystore_type=own.ssl_keystore_type,
        keystore_location=own.ssl_keystore_location,
        keystore_password=own.ssl_keystore_password,
        keystore_key=own.ssl_keystore_key,
        keystore_certificate_chain=own.ssl_keystore_certificate_chain,
        key_password=own.ssl_key_password,
        truststore_type=own.ssl_truststore_type,
        truststore_location=own.ssl_truststore_location,
        truststore_password=own.ssl_truststore_password,
        truststore_certificates=own.ssl_truststore_certificates,
        enabled_protocols=own.ssl_enabled_protocols,
        cipher_suites=own.ssl_cipher_suites,
        client_auth=client_auth,
    )


def enabled_mechanisms(settings: Settings, listener: ListenerAddress) -> tuple[SaslMechanism, ...]:
    """Return the SASL mechanisms of a listener. Raises SecurityProblem if one is not built."""
    names = settings.of_listener(listener.name).sasl_enabled_mechanisms
    if not names:
        raise SecurityProblem(MECHANISMS, f"listener {listener.name} has no SASL mechanism")
    known = [mechanism.value for mechanism in SaslMechanism]
    for name in names:
        if name not in known:
            raise SecurityProblem(
                MECHANISMS,
                f"listener {listener.name}: the mechanism {name} is not built, only "
                f"{', '.join(known)}",
            )
    return tuple(map(SaslMechanism, names))


def login_modules(
    settings: Settings, listener: ListenerAddress, mechanism: SaslMechanism
) -> tuple[JaasModule, ...]:
    """Return the login modules of a mechanism: that of the listener's own setting, else those of
    the JAAS file (Kafka's JaasContext). Return an empty tuple if there is neither. Raises
    SecurityProblem, also for a file without a module of the mechanism."""
    own = _module(settings, listener, mechanism)
    if own is not None:
        return (own,)
    file = settings.login_file
    if file is None:
        return ()
    name, wanted = jaas_name(listener, mechanism), _MODULES[mechanism]
    try:
        modules = file.modules(listener.name)
    except JaasError as error:
        raise SecurityProblem(name, f"the JAAS file {error}") from None
    found = tuple(module for module in modules if module.module is wanted)
    if not found:
        raise SecurityProblem(
            name,
            f"the JAAS file {file.path} has no {wanted} for listener {listener.name}",
        )
    return found


def users_of_plain(settings: Settings, listener: ListenerAddress) -> dict[str, Secret]:
    """Return the users of PLAIN with their passwords. Raises SecurityProblem."""
    modules = login_modules(settings, listener, SaslMechanism.PLAIN)
    if not modules:
        raise SecurityProblem(
            jaas_name(listener, SaslMechanism.PLAIN),
            'PLAIN needs this setting: its options user_<name>="<password>" are the users',
        )
    return plain_users(modules)


def oauth_settings(settings: Settings, listener: ListenerAddress) -> OAuthSettings:
    """Return the settings of OAUTHBEARER. Raises SecurityProblem."""
    own = settings.of_listener(listener.name, SaslMechanism.OAUTHBEARER)
    module = _module(settings, listener, SaslMechanism.OAUTHBEARER)
    options = {}
    if module is not None:
        options = {key: value.reveal() for key, value in module.options.items()}
    try:
        found = OAuthSettings(
            jwks_endpoint_url=own.sasl_oauthbearer_jwks_endpoint_url,
            jwks_endpoint_refresh_ms=own.sasl_oauthbearer_jwks_endpoint_refresh_ms,
            jwks_endpoint_retry_backoff_ms=own.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
            jwks_endpoint_retry_backoff_max_ms=(
                own.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms
            ),
            expected_issuer=own.sasl_oauthbearer_expected_issuer,
            expected_audience=own.sasl_oauthbearer_expected_audience,
            clock_skew_seconds=own.sasl_oauthbearer_clock_skew_seconds,
            sub_claim_name=own.sasl_oauthbearer_sub_claim_name,
            scope_claim_name=own.sasl_oauthbearer_scope_claim_name,
            unsecured=own.oncelog_sasl_oauthbearer_unsecured,
            unsecured_options=unsecured_options(options),
        )
        check(found)
    except OAuthSettingsError as error:
        setting = (
            jaas_name(listener, SaslMechanism.OAUTHBEARER)
            if error.setting == JAAS.name
            else error.setting
        )
        raise SecurityProblem(setting, str(error)) from None
    return found


def security_problems(
    settings: Settings, listeners: tuple[ListenerAddress, ...]
) -> Iterator[SecurityProblem]:
    """Yield the problems of all listeners, except those of their files."""
    for listener in listeners:
        if listener.protocol.has_tls:
            try:
                tls = tls_settings(settings, listener)
                check_stores(tls)
                check_listener(tls)
            except TlsSettingsError as error:
                reason = f"{error.reason} (listener {listener.name})"
                yield SecurityProblem(name_as_set(settings, listener, error.setting), reason)
        if not listener.protocol.has_sasl:
            continue
        try:
            mechanisms = enabled_mechanisms(settings, listener)
        except SecurityProblem as problem:
            yield _as_set(settings, listener, problem)
            continue
        for mechanism in mechanisms:
            try:
                _check_mechanism(settings, listener, mechanism)
            except SecurityProblem as problem:
                yield _as_set(settings, listener, problem, mechanism)


def name_as_set(
    settings: Settings,
    listener: ListenerAddress,
    name: str,
    mechanism: SaslMechanism | None = None,
) -> str:
    """Return the full name of the setting that is in force for the listener: its own, that of its
    mechanism, or the setting of all listeners."""
    for layer in (mechanism, None):
        own = ListenerSetting(listener.name, layer, name)
        if own in settings.of_listeners:
            return own.full_name
    return name


def _as_set(
    settings: Settings,
    listener: ListenerAddress,
    problem: SecurityProblem,
    mechanism: SaslMechanism | None = None,
) -> SecurityProblem:
    name = name_as_set(settings, listener, problem.setting, mechanism)
    return SecurityProblem(name, str(problem))


def _check_mechanism(
    settings: Settings, listener: ListenerAddress, mechanism: SaslMechanism
) -> None:
    _module(settings, listener, mechanism)
    own = settings.of_listener(listener.name, mechanism)
    if own.sasl_server_callback_handler_class and mechanism is not SaslMechanism.OAUTHBEARER:
        raise SecurityProblem(
            "sasl.server.callback.handler.class", f"{mechanism} has no such class of Kafka"
        )
    if mechanism is SaslMechanism.OAUTHBEARER:
        oauth_settings(settings, listener)
    if mechanism is SaslMechanism.PLAIN:
        users_of_plain(settings, listener)
        is_safe = listener.protocol.has_tls or is_loopback(listener.host)
        if not is_safe and not own.oncelog_sasl_plain_without_tls:
            raise SecurityProblem(
                MECHANISMS,
                f"listener {listener.name}: PLAIN sends passwords without encryption over "
                f"{listener.protocol}. Use SASL_SSL or SCRAM, or set {WITHOUT_TLS}=true",
            )


def _module(
    settings: Settings, listener: ListenerAddress, mechanism: SaslMechanism
) -> JaasModule | None:
    """Return the login module of the listener's own setting, None without one. Raises
    SecurityProblem."""
    configuration = settings.jaas_of(listener.name, mechanism)
    if configuration is None:
        return None
    name = jaas_name(listener, mechanism)
    try:
        module = jaas_module(name, configuration.reveal())
    except JaasError as error:
        raise SecurityProblem(name, str(error).removeprefix(f"{name} ")) from None
    wanted = _MODULES[mechanism]
    if module.module is not wanted:
        raise SecurityProblem(name, f"{mechanism} needs the login module {wanted}")
    return module


def jaas_name(listener: ListenerAddress, mechanism: SaslMechanism) -> str:
    """Return the name of the setting with the JAAS configuration of a listener's mechanism."""
    return f"{PREFIX}{listener.name.lower()}.{mechanism.lower()}.{JAAS.name}"

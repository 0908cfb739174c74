"""The credentials of a client, from its settings: a name with a password, or the place of a token.
Each may be given by settings of its own or by `sasl_jaas_config`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from oncelog_client.errors import ConfigError
from oncelog_protocol.secret import Secret
from oncelog_protocol.security.jaas import JaasModule, LoginModule, jaas_module
from oncelog_protocol.security.jaas_syntax import JaasError
from oncelog_protocol.security.login import SaslCredentials, password_credentials
from oncelog_protocol.security.mechanisms import SaslMechanism

from .client_credentials import ClientCredentials

_JAAS: Final = "sasl_jaas_config"
_USERNAME: Final = "sasl_username"
_PASSWORD: Final = "sasl_password"
_CALLBACK: Final = "sasl_oauthbearer_token"
_URL: Final = "sasl_oauthbearer_token_endpoint_url"
_CLIENT_ID: Final = "sasl_oauthbearer_client_credentials_client_id"
_CLIENT_SECRET: Final = "sasl_oauthbearer_client_credentials_client_secret"
_SCOPE: Final = "sasl_oauthbearer_scope"
_FILE: Final = "file:"
# Options of the login module with the meaning of a setting, as in Kafka.
_JAAS_OPTIONS: Final = {_CLIENT_ID: "clientId", _CLIENT_SECRET: "clientSecret", _SCOPE: "scope"}


class TokenPlace(NamedTuple):
    """The place of the tokens of OAUTHBEARER: `callback`, or `url`. `credentials` are for a `url`
    that names no file."""

    callback: Callable[[], object] | None = None
    url: str = ""
    credentials: ClientCredentials | None = None


def check_login(values: Mapping[str, Any]) -> None:
    """Raise ConfigError if the checked settings `values` of a client with SASL contain no
    credentials, credentials that are given twice, or credentials for another mechanism."""
    if _mechanism(values) is SaslMechanism.OAUTHBEARER:
        token_place(values)
    else:
        password_login(values)


def password_login(values: Mapping[str, Any]) -> SaslCredentials | None:
    """Return the name and the password of a client, or None with OAUTHBEARER. Raises
    ConfigError."""
    mechanism = _mechanism(values)
    if mechanism is SaslMechanism.OAUTHBEARER:
        return None
    _refuse(values, (_CALLBACK, _URL, _CLIENT_ID, _CLIENT_SECRET), f"sasl_mechanism={mechanism}")
    jaas: Secret | None = values[_JAAS]
    username, password = values[_USERNAME], values[_PASSWORD]
    if jaas is not None:
        _refuse(values, (_USERNAME, _PASSWORD), _JAAS)
        try:
            return password_credentials(_JAAS, mechanism, jaas_module(_JAAS, jaas.reveal()))
        except JaasError as error:
            raise ConfigError(str(error)) from None
    if username is None and password is None:
        raise ConfigError(
            f"sasl_mechanism={mechanism} needs {_JAAS}, or {_USERNAME} and {_PASSWORD}"
        )
    if password is None:
        raise ConfigError(f"{_USERNAME} needs {_PASSWORD}")
    if username is None:
        raise ConfigError(f"{_PASSWORD} needs {_USERNAME}")
    return SaslCredentials(mechanism, username, password)


def token_place(values: Mapping[str, Any]) -> TokenPlace | None:
    """Return the place of the tokens, or None without OAUTHBEARER. Raises ConfigError."""
    mechanism = _mechanism(values)
    if mechanism is not SaslMechanism.OAUTHBEARER:
        return None
    _refuse(values, (_USERNAME, _PASSWORD), f"sasl_mechanism={mechanism}")
    callback, url = values[_CALLBACK], values[_URL]
    if callback is not None:
        _refuse(values, (_URL, _JAAS, _CLIENT_ID, _CLIENT_SECRET), _CALLBACK)
        return TokenPlace(callback)
    if url is None:
        raise ConfigError(f"sasl_mechanism={mechanism} needs {_CALLBACK} or {_URL}")
    if url.startswith(_FILE):
        return TokenPlace(url=url)
    given = _with_jaas_options(values)
    missing = [name for name in (_CLIENT_ID, _CLIENT_SECRET) if given[name] is None]
    if missing:
        raise ConfigError(f"{_URL} needs {' and '.join(missing)}")
    encodes: bool = values["sasl_oauthbearer_header_urlencode"]
    credentials = ClientCredentials(
        given[_CLIENT_ID], given[_CLIENT_SECRET], given[_SCOPE], encodes
    )
    return TokenPlace(url=url, credentials=credentials)


def _with_jaas_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of client credentials. A setting comes before the option of the login
    module with the same meaning, as in Kafka."""
    options = _oauth_options(values[_JAAS])
    found: dict[str, Any] = {}
    for name, option in _JAAS_OPTIONS.items():
        secret = options.get(option)
        text = None if secret is None else secret if name == _CLIENT_SECRET else secret.reveal()
        found[name] = text if values[name] is None else values[name]
    return found


def _oauth_options(jaas: Secret | None) -> Mapping[str, Secret]:
    if jaas is None:
        return {}
    try:
        module: JaasModule = jaas_module(_JAAS, jaas.reveal())
    except JaasError as error:
        raise ConfigError(str(error)) from None
    if module.module is not LoginModule.OAUTHBEARER:
        raise ConfigError(
            f"{_JAAS} has {module.module}, but sasl_mechanism={SaslMechanism.OAUTHBEARER} needs"
            f" {LoginModule.OAUTHBEARER}"
        )
    return module.options


def _mechanism(values: Mapping[str, Any]) -> SaslMechanism:
    return SaslMechanism(values["sasl_mechanism"])


def _refuse(values: Mapping[str, Any], names: tuple[str, ...], beside: str) -> None:
    """Raise ConfigError for a setting that contradicts another setting."""
    for name in names:
        if values[name] is not None:
            raise ConfigError(f"{name} cannot be used with {beside}: remove either of the two")

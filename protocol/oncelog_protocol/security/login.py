"""The credentials of a client, and the exchange that sends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.jaas import JaasModule, LoginModule
from oncelog_protocol.security.jaas_syntax import JaasError
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.plain_client import PlainClient
from oncelog_protocol.security.sasl_client import SaslClient
from oncelog_protocol.security.scram_client import ScramClient
from oncelog_protocol.security.scram_credential import ScramMechanism
from oncelog_protocol.security.scram_messages import RANDOM_BYTES, random_text

TOKEN_AUTH: Final = "tokenauth"
"""The extension of SCRAM for delegation tokens, and its option in JAAS (KIP-48)."""

RandomBytes = Callable[[int], bytes]
"""The source of secret random numbers: returns the given number of bytes."""


class SaslCredentials(NamedTuple):
    """A name and a password, for PLAIN and SCRAM. Hashable, so that it can be part of a cache key.
    `extensions` are pairs of name and value, which are sent with SCRAM only."""

    mechanism: SaslMechanism
    username: str
    password: Secret
    extensions: tuple[tuple[str, str], ...] = ()


def password_credentials(
    setting: str, mechanism: SaslMechanism, module: JaasModule
) -> SaslCredentials:
    """Return the credentials in a JAAS configuration. Raises JaasError, which names the setting, if
    the module is not that of the mechanism, or lacks the name or the password."""
    expected = _MODULES.get(mechanism)
    if module.module is not expected:
        raise JaasError(
            f"{setting} has {module.module}, but sasl.mechanism={mechanism} needs {expected}"
        )
    missing = [name for name in ("username", "password") if name not in module.options]
    if missing:
        raise JaasError(f"{setting} has no option {' and no option '.join(missing)}")
    token_auth = module.options.get(TOKEN_AUTH)
    by_token = token_auth is not None and token_auth.reveal().lower() == "true"
    return SaslCredentials(
        mechanism,
        module.options["username"].reveal(),
        module.options["password"],
        ((TOKEN_AUTH, "true"),) if by_token else (),
    )


def sasl_client(credentials: SaslCredentials, random_bytes: RandomBytes) -> SaslClient:
    """Return a new exchange for one authentication. Raises ValueError for a mechanism without a
    password."""
    try:
        make = _CLIENTS[credentials.mechanism]
    except KeyError:
        raise ValueError(f"SASL mechanism {credentials.mechanism} has no password") from None
    return make(credentials, random_bytes)


def _plain(credentials: SaslCredentials, _: RandomBytes) -> SaslClient:
    return PlainClient(credentials.username, credentials.password)


def _scram(credentials: SaslCredentials, random_bytes: RandomBytes) -> SaslClient:
    return ScramClient(
        ScramMechanism[credentials.mechanism.name],
        credentials.username,
        credentials.password,
        random_text(random_bytes(RANDOM_BYTES)),
        dict(credentials.extensions),
    )


_MODULES: Final[Mapping[SaslMechanism, LoginModule]] = {
    SaslMechanism.PLAIN: LoginModule.PLAIN,
    SaslMechanism.SCRAM_SHA_256: LoginModule.SCRAM,
    SaslMechanism.SCRAM_SHA_512: LoginModule.SCRAM,
    SaslMechanism.OAUTHBEARER: LoginModule.OAUTHBEARER,
}

_CLIENTS: Final[Mapping[SaslMechanism, Callable[[SaslCredentials, RandomBytes], SaslClient]]] = {
    SaslMechanism.PLAIN: _plain,
    SaslMechanism.SCRAM_SHA_256: _scram,
    SaslMechanism.SCRAM_SHA_512: _scram,
}

"""The principal that a broker gives to a client, as far as the client's settings show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from oncelog_protocol.security.login import TOKEN_AUTH

ANONYMOUS: Final = "User:ANONYMOUS"


def own_principal(values: Mapping[str, Any]) -> str | None:
    """Return the principal of a client with these checked settings, as `User:alice`.

    Return None if it is unknown. A broker derives a name from a certificate by its own rules, and
    the name in a token is not among the settings.
    """
    protocol = values["security_protocol"]
    if protocol.startswith("SASL_"):
        # Most clients do not need this module.
        from .sasl_login import password_login

        login = password_login(values)
        if login is None or TOKEN_AUTH in dict(login.extensions):
            return None
        return f"User:{login.username}"
    has_certificate = values["ssl_keystore_location"] or values["ssl_keystore_certificate_chain"]
    return None if protocol == "SSL" and has_certificate else ANONYMOUS

"""Honored settings of access rules."""

from __future__ import annotations

from typing import Final

from oncelog_server.settings.immutable import ImmutableSettings
from oncelog_server.settings.table import Importance, Kind, honoured

LOW = Importance.LOW
# The only authorizer. Kafka names it by its Java class.
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def _known_authorizer(name: str) -> str | None:
    """Return the reason why the class cannot be the authorizer, None if it can be."""
    if name in ("", STANDARD_AUTHORIZER):
        return None
    return f"the only authorizer is {STANDARD_AUTHORIZER}, because Java classes cannot be loaded"


def _principals(text: str) -> str | None:
    """Return the reason why the text is no list of principals, None if it is."""
    for name in split_principals(text):
        if ":" not in name:
            return (
                "expected a string in format principalType:principalName, separated by semicolons, "
                f"but got {name}"
            )
    return None


def split_principals(text: str) -> list[str]:
    """Return the principals of super.users, which semicolons separate."""
    return [name.strip() for name in text.split(";") if name.strip()]


class SecuritySettings(ImmutableSettings):
    """Names, defaults and ranges are Kafka 4.3's, unless the text of a setting says otherwise."""

    authorizer_class_name: str = honoured(
        Kind.STRING,
        "",
        "The class that decides by access rules (ACLs): empty, which allows everything, or "
        f"`{STANDARD_AUTHORIZER}`.",
        _known_authorizer,
        importance=LOW,
    )
    super_users: str = honoured(
        Kind.STRING,
        "",
        "The principals that may do everything, as `User:alice;User:bob`. A client of a listener "
        "without authentication is `User:ANONYMOUS`. With an authorizer, a start is refused if "
        "every request would be denied.",
        _principals,
        importance=LOW,
    )
    allow_everyone_if_no_acl_found: bool = honoured(
        Kind.BOOLEAN,
        False,
        "Whether everything is allowed on a resource that no access rule is about.",
        importance=LOW,
    )

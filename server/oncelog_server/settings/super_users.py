"""The principals that the clients of each listener can have. Any other super user can never log in.

| listener | principals of its clients |
|---|---|
| PLAINTEXT, or SSL that asks for no certificate | `User:ANONYMOUS` |
| SSL that asks for certificates | any name: the mapping rules derive it from the subject |
| SASL with PLAIN | the users of the JAAS configuration |
| SASL with SCRAM | the users with a credential of the mechanism |
| SASL with OAUTHBEARER | any name: the authorization server gives it |
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.scram_credential import ScramMechanism
from oncelog_server.security.resources import ANONYMOUS
from oncelog_server.settings.listener_security import (
    enabled_mechanisms,
    jaas_name,
    tls_settings,
    users_of_plain,
)
from oncelog_server.settings.listeners import ListenerAddress, listeners_of
from oncelog_server.settings.model import Settings
from oncelog_server.settings.security import split_principals

ScramUsers = Collection[tuple[ScramMechanism, str]]
_USER: Final = f"{ANONYMOUS.type}:"


class Clients(msgspec.Struct, frozen=True):
    """Some clients of a listener. `names` are the names of their principals, None if these can be
    any. `text` describes the clients in an error. All principals are of type User."""

    names: frozenset[str] | None
    text: str

    def can_be(self, principal: str) -> bool:
        """Return True if such a client can have this principal, such as `User:alice`."""
        name = principal.removeprefix(_USER)
        return name != principal and (self.names is None or name in self.names)


def clients_of(
    settings: Settings, listener: ListenerAddress, scram_users: ScramUsers
) -> Iterator[Clients]:
    """Yield the clients that a listener can admit. `scram_users` are all users with a credential.
    The settings must be free of contradictions."""
    if not listener.protocol.has_sasl:
        if listener.protocol.has_tls and tls_settings(settings, listener).client_auth != "none":
            yield Clients(None, "clients with a certificate")
        yield Clients(frozenset({ANONYMOUS.name}), str(ANONYMOUS))
        return
    for mechanism in enabled_mechanisms(settings, listener):
        if mechanism is SaslMechanism.PLAIN:
            names = frozenset(users_of_plain(settings, listener))
            yield Clients(names, f"the users of {jaas_name(listener, mechanism)}")
        elif mechanism is SaslMechanism.OAUTHBEARER:
            yield Clients(None, "the subjects of tokens")
        else:
            scram = ScramMechanism.of_sasl(mechanism)
            names = frozenset(name for found, name in scram_users if found is scram)
            yield Clients(names, f"the users with a credential of {mechanism}")


def unreachable_super_users(settings: Settings, scram_users: ScramUsers) -> str:
    """Return the reason why no client could ever be a super user, "" if one could.

    No client has a principal of another type than User, because there are no principal builders.
    """
    super_users = split_principals(settings.super_users)
    if not super_users:
        return "super.users is empty"
    listeners = []
    for listener in listeners_of(settings):
        found = list(clients_of(settings, listener, scram_users))
        if any(clients.can_be(principal) for clients in found for principal in super_users):
            return ""
        texts = " and ".join(clients.text for clients in found)
        listeners.append(f"the clients of {listener.name} are {texts}")
    reason = f"no client can be one of these, because {', '.join(listeners)}"
    return f"super.users={settings.super_users}: {reason}{_wrong_form(super_users)}"


def _wrong_form(super_users: Collection[str]) -> str:
    """Return a sentence about the form of principals that no client can have, "" if there are
    none."""
    wrong = [principal for principal in super_users if not principal.startswith(_USER)]
    if wrong:
        return f". {wrong[0]!r} has another type: a principal begins with {_USER!r}"
    joined = [principal for principal in super_users if f",{_USER}" in principal.replace(" ", "")]
    if joined:
        return f". {joined[0]!r} is a single principal, because ';' separates principals, not ','"
    return ""


def ways_out(settings: Settings, scram_users: ScramUsers) -> str:
    """Return a sentence with the ways in which an operator can let a super user log in."""
    ways = ["Set super.users to the principal of a client that can log in, as User:admin"]
    # The file of first users counts only while no user has a credential.
    if _has_scram(settings) and not scram_users:
        ways.append(
            "give a super user a credential (ONCELOG_BOOTSTRAP_USER_FILE, or `oncelog storage "
            "format --add-scram` for a new data directory)"
        )
    return ", ".join(ways) + ", or set allow.everyone.if.no.acl.found=true"


def _has_scram(settings: Settings) -> bool:
    return any(
        mechanism.name in ScramMechanism.__members__
        for listener in listeners_of(settings)
        if listener.protocol.has_sasl
        for mechanism in enabled_mechanisms(settings, listener)
    )

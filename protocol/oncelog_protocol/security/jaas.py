"""The login modules of JAAS configurations, with their options: of a client, and of a broker's
listeners.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.jaas_syntax import (
    JaasEntry,
    JaasError,
    parse_file,
    parse_property,
)

_LOOKS_LIKE_MODULE: Final = re.compile(r"[A-Za-z0-9_$]+LoginModule")
_SERVER_CONTEXT: Final = "KafkaServer"
_CLIENT_CONTEXT: Final = "KafkaClient"
_USER: Final = "user_"


class LoginModule(StrEnum):
    """The login modules with an effect, by the last part of their class names, so that the names
    of shaded packages work too."""

    PLAIN = "PlainLoginModule"
    SCRAM = "ScramLoginModule"
    OAUTHBEARER = "OAuthBearerLoginModule"


# Login modules of Kafka that oncelog does not have, with the reason.
_REFUSED: Final = {"Krb5LoginModule": "GSSAPI (Kerberos) is not supported"}


class JaasModule(NamedTuple):
    """A known login module and its options."""

    module: LoginModule
    options: Mapping[str, Secret]

    def __repr__(self) -> str:
        return f"JaasModule({self.module}, {len(self.options)} options)"


def jaas_module(setting: str, configuration: str) -> JaasModule:
    """Return the only login module of the value of `sasl.jaas.config`. Raises JaasError, which
    names the setting, for a wrong form, for a module that is not known, and for two modules."""
    try:
        entries = parse_property(configuration)
        if len(entries) != 1:
            raise JaasError(f"has {len(entries)} login modules, not 1")
        return _known(entries[0])
    except JaasError as failure:
        raise JaasError(f"{setting} {failure}") from None


def jaas_contexts(file: str, configuration: str) -> dict[str, tuple[JaasEntry, ...]]:
    """Return the login modules of each context of a JAAS file, by the names of the contexts. Raises
    JaasError, which names the file and the line. Modules need not be known: a file may have
    contexts of other programs."""
    try:
        return parse_file(configuration)
    except JaasError as failure:
        raise JaasError(f"{file}: {failure}") from None


def server_modules(
    file: str, contexts: Mapping[str, tuple[JaasEntry, ...]], listener: str
) -> tuple[JaasModule, ...]:
    """Return the login modules of a listener: those of `<listener>.KafkaServer`, with the listener
    in lower case, else those of `KafkaServer`. Raises JaasError if the file has neither."""
    own = f"{listener.lower()}.{_SERVER_CONTEXT}"
    for name in (own, _SERVER_CONTEXT):
        if name in contexts:
            return _known_modules(file, name, contexts[name])
    raise JaasError(f"{file} has no context {own!r} or {_SERVER_CONTEXT!r}")


def client_modules(
    file: str, contexts: Mapping[str, tuple[JaasEntry, ...]]
) -> tuple[JaasModule, ...]:
    """Return the login modules of `KafkaClient`. Raises JaasError for a file without it."""
    if _CLIENT_CONTEXT not in contexts:
        raise JaasError(f"{file} has no context {_CLIENT_CONTEXT!r}")
    return _known_modules(file, _CLIENT_CONTEXT, contexts[_CLIENT_CONTEXT])


def plain_users(modules: Iterable[JaasModule]) -> dict[str, Secret]:
    """Return the users of the broker's PLAIN: the options `user_<name>` of PlainLoginModule. The
    first module with a user gives the password."""
    users: dict[str, Secret] = {}
    for module in modules:
        if module.module is LoginModule.PLAIN:
            for option, password in module.options.items():
                if option.startswith(_USER):
                    users.setdefault(option.removeprefix(_USER), password)
    return users


def _known_modules(
    file: str, context: str, entries: tuple[JaasEntry, ...]
) -> tuple[JaasModule, ...]:
    try:
        return tuple(_known(entry) for entry in entries)
    except JaasError as failure:
        raise JaasError(f"{file}: context {context!r} {failure}") from None


def _known(entry: JaasEntry) -> JaasModule:
    """Return the module of an entry. Raises JaasError for a module that is not supported."""
    name = entry.simple_name
    if name in _REFUSED:
        raise JaasError(f"has login module {name}: {_REFUSED[name]}")
    if name not in LoginModule.__members__.values():
        # Only what looks like a class is shown, because a password may be in its place.
        shown = (
            f"the unknown login module {name}"
            if _LOOKS_LIKE_MODULE.fullmatch(name)
            else ("no known login module")
        )
        raise JaasError(f"has {shown}: use one of {', '.join(LoginModule)}")
    return JaasModule(LoginModule(name), entry.options)

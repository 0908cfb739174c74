"""The JAAS file of the broker, which Java's flag `java.security.auth.login.config` names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from oncelog_protocol.security.jaas import JaasModule, jaas_contexts, server_modules
from oncelog_protocol.security.jaas_syntax import JaasEntry, JaasError


class LoginFile(NamedTuple):
    """A JAAS file: its path, and the login modules of its contexts. `failure` is the reason why the
    file cannot be used, else empty. It is a problem only if a listener needs the file."""

    path: str
    contexts: Mapping[str, tuple[JaasEntry, ...]]
    failure: str = ""

    def modules(self, listener: str) -> tuple[JaasModule, ...]:
        """Return the login modules of a listener: of `<listener>.KafkaServer`, else of
        `KafkaServer`. Raises JaasError."""
        if self.failure:
            raise JaasError(self.failure)
        return server_modules(self.path, self.contexts, listener)


def login_file(path: str, text: str) -> LoginFile:
    """Return the file with this text."""
    try:
        return LoginFile(path, jaas_contexts(path, text))
    except JaasError as error:
        return LoginFile(path, {}, str(error))


def unreadable_login_file(path: str, reason: str) -> LoginFile:
    """Return a file without a text."""
    return LoginFile(path, {}, f"{path} cannot be read: {reason}")

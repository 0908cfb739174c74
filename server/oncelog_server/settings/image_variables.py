"""Variables of Kafka's images that are no settings: names of files with stores and passwords, and
the flags of the JVM.

The rules are those of the script `configure` of Apache Kafka's image. Pure: the caller reads the
files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

SECRETS_FOLDER: Final = "/etc/kafka/secrets"
JVM_OPTIONS: Final = "KAFKA_OPTS"
_LOGIN_FLAG: Final = "-Djava.security.auth.login.config="
_FILE_URL: Final = "file:"

# The variable with the name of a store -> the variable of the setting with the path of the store.
_STORES: Final = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "KAFKA_SSL_KEYSTORE_LOCATION",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "KAFKA_SSL_TRUSTSTORE_LOCATION",
}
# The variable with the name of a file that holds a password -> the variable of the password.
_PASSWORDS: Final = {
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "KAFKA_SSL_KEYSTORE_PASSWORD",
    "KAFKA_SSL_KEY_CREDENTIALS": "KAFKA_SSL_KEY_PASSWORD",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "KAFKA_SSL_TRUSTSTORE_PASSWORD",
}
VARIABLES: Final = frozenset(_STORES) | frozenset(_PASSWORDS)


class UnreadablePassword(ValueError):
    """A file with a password cannot be read. `variable` names the file."""

    def __init__(self, variable: str, reason: str) -> None:
        super().__init__(f"{variable}: {reason}")
        self.variable = variable
        self.reason = reason


def with_secret_files(
    environment: Mapping[str, str], read: Callable[[str], str], folder: str = SECRETS_FOLDER
) -> Mapping[str, str]:
    """Return the environment with the variables that the script `configure` sets: paths of stores,
    and passwords from files. They override variables that are set already, as in the script.

    `read` returns the text of a file. It raises OSError, or ValueError for bytes that are no text;
    this function then raises UnreadablePassword.
    """
    added: dict[str, str] = {}
    for variable, target in _STORES.items():
        if environment.get(variable):
            added[target] = f"{folder}/{environment[variable]}"
    for variable, target in _PASSWORDS.items():
        if environment.get(variable):
            path = f"{folder}/{environment[variable]}"
            try:
                # A shell's `$(cat file)` removes line feeds at the end, and nothing else.
                added[target] = read(path).rstrip("\n")
            except OSError as error:
                reason = f"{path} cannot be read: {error.strerror}"
                raise UnreadablePassword(variable, reason) from None
            except ValueError:
                raise UnreadablePassword(
                    variable, f"{path} is too large, or not text in UTF-8"
                ) from None
    return {**environment, **added} if added else environment


def login_file_path(environment: Mapping[str, str]) -> str | None:
    """Return the path of the JAAS file in KAFKA_OPTS, None without one. The last flag counts, as in
    Java. Other flags of the JVM have no meaning here."""
    path = None
    for word in environment.get(JVM_OPTIONS, "").split():
        if word.startswith(_LOGIN_FLAG):
            # With two equals signs, Java reads only this file.
            path = word.removeprefix(_LOGIN_FLAG).removeprefix("=")
    if path is not None and path.startswith(_FILE_URL):
        path = "/" + path.removeprefix(_FILE_URL).lstrip("/")
    return path or None

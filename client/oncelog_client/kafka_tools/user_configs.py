"""SCRAM credentials in kafka-configs.sh (`--entity-type users`), by the rules of Kafka's
ConfigCommand."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from oncelog_client.admin.scram_credentials import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from oncelog_client.admin.users import alter_credentials, describe_credentials
from oncelog_client.errors import KafkaError
from oncelog_client.kafka_tools.config_entities import USERS
from oncelog_client.kafka_tools.connecting import Connection
from oncelog_client.kafka_tools.failures import (
    ILLEGAL_ARGUMENT,
    JavaError,
    java_error,
    of_client,
    print_log,
)
from oncelog_client.kafka_tools.options import Given
from oncelog_client.kafka_tools.quota_configs import CLIENT_QUOTAS
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.secret import HIDDEN, Secret
from oncelog_protocol.security.scram_credential import LEAST_ITERATIONS

MECHANISMS: Final = {str(mechanism.sasl): mechanism for mechanism in ScramMechanism}
_CREDENTIAL: Final = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)")
_PASSWORD: Final = re.compile(r"(password=).*", re.DOTALL)
_LOGGER: Final = "kafka.admin.ConfigCommand$"


def hidden(argument: str) -> str:
    """Return an argument of the tool without its password."""
    return _PASSWORD.sub(rf"\1{HIDDEN}", argument)


def alterations(
    given: Given, names: Sequence[str], new: Mapping[str, str], old: Sequence[str]
) -> list[UserScramCredentialAlteration] | None:
    """Return the alterations of the credentials of a user. `names` are the entities of the command,
    `new` the settings to set, `old` the names of the settings to remove. Return None if quotas are
    altered instead. Raises JavaError."""
    # Scala prints the names of the added settings as a set.
    _check_names(new, "added", "Set")
    _check_names(old, "deleted", "ArrayBuffer")
    has_quotas = any(name in CLIENT_QUOTAS for name in (*new, *old))
    if any(name in MECHANISMS for name in (*new, *old)):
        if "" in names:
            raise JavaError(
                ILLEGAL_ARGUMENT,
                "The use of --entity-default or --user-defaults is not allowed with User SCRAM "
                "Credentials using --bootstrap-server.",
            )
        if has_quotas:
            raise JavaError(
                ILLEGAL_ARGUMENT,
                "Cannot alter both quota and SCRAM credential configs simultaneously for "
                f"'{USERS}' using --bootstrap-server.",
            )
    if has_quotas:
        return None
    user = names[0]
    removed: list[UserScramCredentialAlteration] = [
        UserScramCredentialDeletion(user, MECHANISMS[name]) for name in old
    ]
    upserted = [_upsertion(user, MECHANISMS[name], text) for name, text in new.items()]
    if upserted and given.has("add-config"):
        print_log(
            "WARN",
            "--add-config shows the password to other users of this computer: use "
            "--add-config-file, or oncelog users add",
            _LOGGER,
        )
    return [*removed, *upserted]


def _check_names(names: Collection[str], what: str, collection: str) -> None:
    unknown = [name for name in names if name not in MECHANISMS and name not in CLIENT_QUOTAS]
    if unknown:
        raise JavaError(
            ILLEGAL_ARGUMENT,
            f"Only quota and SCRAM credential configs can be {what} for '{USERS}' using "
            f"--bootstrap-server. Unexpected config names: {collection}({', '.join(unknown)})",
        )


def _upsertion(user: str, mechanism: ScramMechanism, text: str) -> UserScramCredentialUpsertion:
    found = _CREDENTIAL.fullmatch(text)
    if found is None:
        # Kafka's tool prints the whole property.
        raise JavaError(ILLEGAL_ARGUMENT, f"Invalid credential property {mechanism.name}={HIDDEN}")
    written = found[1]
    if written is None or written == "-1":
        iterations = LEAST_ITERATIONS
    elif written in ("", "-"):
        raise JavaError("java.lang.NumberFormatException", f'For input string: "{written}"')
    else:
        iterations = int(written)
    if iterations < LEAST_ITERATIONS:
        raise JavaError(
            ILLEGAL_ARGUMENT,
            f"Iterations {iterations} is less than the minimum {LEAST_ITERATIONS} required for "
            f"{mechanism.sasl}",
        )
    return UserScramCredentialUpsertion(
        user, Secret(found[2]), ScramCredentialInfo(mechanism, iterations)
    )


async def alter(connection: Connection, alterations: list[UserScramCredentialAlteration]) -> None:
    """Make the alterations. Raises JavaError."""
    for row in alterations:
        if isinstance(row, UserScramCredentialUpsertion) and not row.password:
            raise java_error(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Password must not be empty")
    try:
        await alter_credentials(connection.cluster, alterations, connection.timeout_ms)
    except KafkaError as error:
        raise of_client(error) from error


async def describe(connection: Connection, names: Sequence[str]) -> None:
    """Print the credentials of the users `names`, or of all users if it is empty. Print nothing for
    a user without credentials."""
    try:
        described = await describe_credentials(
            connection.cluster, names or None, connection.timeout_ms
        )
    except KafkaError as error:
        if error.code is ErrorCode.RESOURCE_NOT_FOUND:
            return
        raise of_client(error) from error
    for user, infos in sorted(described.items()):
        credentials = ", ".join(
            f"{info.mechanism.sasl}=iterations={info.iterations}" for info in sorted(infos)
        )
        sys.stdout.write(
            f"SCRAM credential configs for user-principal '{user}' are {credentials}\n"
        )

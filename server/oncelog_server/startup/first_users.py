"""Creates the users of ONCELOG_BOOTSTRAP_USER_FILE at a start. They can log in and add other users.

A line of the file is `name:mechanism:password`. The file counts only while the metadata has no
credential, and may be deleted afterwards.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import structlog

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.scram_credential import (
    LEAST_ITERATIONS,
    ScramMechanism,
    salted_password,
)
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.scram_changes import ScramUpsertion
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.metadata.store_wait import StoreWait
from oncelog_server.refusal import Refused

VARIABLE: Final = "ONCELOG_BOOTSTRAP_USER_FILE"
SALT_BYTES: Final = 20
_FIELDS: Final = 3

_log = structlog.get_logger("oncelog.broker")


class FirstUser(msgspec.Struct, frozen=True):
    """A user of the file."""

    name: str
    mechanism: ScramMechanism
    password: Secret

    def upsertion(self) -> ScramUpsertion:
        """Return the change that creates the credential, with a new salt. It takes 8 ms."""
        salt = os.urandom(SALT_BYTES)
        password = self.password.reveal()
        salted = salted_password(self.mechanism, password, salt, LEAST_ITERATIONS)
        return ScramUpsertion(self.name, self.mechanism, LEAST_ITERATIONS, salt, salted)


def read_first_users(
    image: ClusterImage, environment: Mapping[str, str] = os.environ
) -> tuple[FirstUser, ...]:
    """Return the users to create: none without a file, and none if there is a credential already.

    Raises ValueError for an invalid line, OSError if the file cannot be read.
    """
    text = environment.get(VARIABLE, "")
    if not text or image.scram_credentials:
        return ()
    path = Path(text)
    try:
        mode = path.stat().st_mode
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise OSError(f"{VARIABLE}: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ValueError(f"{VARIABLE}: {path} is not text in UTF-8") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        _log.warning("other users may read the passwords of the first users", file=str(path))
    users = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                users.append(_user(line))
            except ValueError as error:
                raise ValueError(f"{VARIABLE}: {path}, line {number}: {error}") from None
    return tuple(users)


async def create_first_users(
    metadata: ClusterMetadata, users: Sequence[FirstUser], wait: StoreWait
) -> None:
    """Create the users. Raises OSError if the credentials cannot be written."""
    # A request alters only one credential of a user.
    for user in users:
        create = partial(_create, metadata, user.upsertion())
        try:
            await wait.step(f"the credential of the first user {user.name}", create)
        except Refused as refused:
            reason = f"the credential of user {user.name} could not be written: {refused}"
            raise OSError(reason) from refused
    _log.info(
        "first users created",
        users=sorted({user.name for user in users}),
        file=os.environ.get(VARIABLE, ""),
    )


async def _create(metadata: ClusterMetadata, upsertion: ScramUpsertion) -> None:
    """Create a credential. Raises Refused."""
    outcomes = await metadata.users.alter_scram_credentials([], [upsertion])
    for refused in outcomes.values():
        if refused is not None:
            raise refused


def _user(line: str) -> FirstUser:
    """Return the user of a line. Raises ValueError, without the password."""
    name, *rest = line.split(":", _FIELDS - 1)
    if len(rest) != _FIELDS - 1 or not name or not rest[1]:
        raise ValueError("expected name:mechanism:password")
    try:
        mechanism = ScramMechanism.of_sasl(SaslMechanism(rest[0]))
    except ValueError:
        # The text is not shown: it is a part of a password if the mechanism is missing.
        known = " or ".join(each.sasl for each in ScramMechanism)
        raise ValueError(f"the mechanism must be {known}") from None
    return FirstUser(name, mechanism, Secret(rest[1]))

"""Creates the users of ONCELOG_BOOTSTRAP_USER_FILE at a start. They can log in and add others.

A line of the file is `name:mechanism:password`. The file counts only while the metadata has no
credential, and may be deleted afterwards.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import structlog

from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.scram_credential import (
    LEAST_ITERATIONS,
    ScramMechanism,
    salted_password,
)
from oncelog_server.cluster.scram_changes import ScramUpsertion
from oncelog_server.metadata.cluster_metadata import ClusterMetadata

VARIABLE: Final = "ONCELOG_BOOTSTRAP_USER_FILE"
SALT_BYTES: Final = 20
_FIELDS: Final = 3

_log = structlog.get_logger("oncelog.broker")


async def create_first_users(
    metadata: ClusterMetadata, environment: Mapping[str, str] = os.environ
) -> None:
    """Create the users if there is a file and no credential yet. Raises ValueError for an invalid
    line, OSError if the file cannot be read or the credentials cannot be written."""
    text = environment.get(VARIABLE, "")
    if not text or metadata.image.scram_credentials:
        return
    path = Path(text)
    upsertions = _read(path)
    # A request alters only one credential of a user.
    for upsertion in upsertions:
        for user, refused in (await metadata.alter_scram_credentials([], [upsertion])).items():
            if refused is not None:
                raise OSError(f"the credential of user {user} could not be written: {refused}")
    _log.info(
        "first users created",
        users=sorted({upsertion.user for upsertion in upsertions}),
        file=str(path),
    )


def _read(path: Path) -> list[ScramUpsertion]:
    try:
        mode = path.stat().st_mode
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise OSError(f"{VARIABLE}: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ValueError(f"{VARIABLE}: {path} is not text in UTF-8") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        _log.warning("other users may read the passwords of the first users", file=str(path))
    upsertions = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                upsertions.append(_upsertion(line))
            except ValueError as error:
                raise ValueError(f"{VARIABLE}: {path}, line {number}: {error}") from None
    return upsertions


def _upsertion(line: str) -> ScramUpsertion:
    """Return the credential of a line. Raises ValueError, without the password."""
    name, *rest = line.split(":", _FIELDS - 1)
    if len(rest) != _FIELDS - 1 or not name or not rest[1]:
        raise ValueError("expected name:mechanism:password")
    try:
        mechanism = ScramMechanism.of_sasl(SaslMechanism(rest[0]))
    except ValueError:
        # The text is not shown: it is a part of a password if the mechanism is missing.
        known = " or ".join(each.sasl for each in ScramMechanism)
        raise ValueError(f"the mechanism must be {known}") from None
    salt = os.urandom(SALT_BYTES)
    salted = salted_password(mechanism, rest[1], salt, LEAST_ITERATIONS)
    return ScramUpsertion(name, mechanism, LEAST_ITERATIONS, salt, salted)

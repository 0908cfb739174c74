"""Alterations of SCRAM credentials (KIP-554), decided on a metadata image and returned as
conditional writes.

The checks, their order and their messages are those of Kafka's ScramControlManager. The decision
about a user depends on this user's alterations only, so that a large request can be written in
parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.security.scram_credential import (
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
)
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.records import ScramCredentialRecord
from oncelog_server.cluster.security_records import ScramUser
from oncelog_server.cluster.store import MAX_OPERATIONS, Delete, Put, Write, WriteOperation, Written
from oncelog_server.refusal import Refused

MAX_ALTERED_AT_ONCE: Final = MAX_OPERATIONS
"""Maximum number of users that one transaction of the store alters."""


class ScramDeletion(NamedTuple):
    """A credential to remove. `mechanism` is a code, which may be unknown."""

    user: str
    mechanism: int


class ScramUpsertion(NamedTuple):
    """A credential to add or replace. `mechanism` is a code, which may be unknown."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion(user={self.user!r}, mechanism={self.mechanism})"


ScramAlteration = ScramDeletion | ScramUpsertion


def by_user(
    deletions: Iterable[ScramDeletion], upsertions: Iterable[ScramUpsertion]
) -> dict[str, list[ScramAlteration]]:
    """Return the alterations of each user: first the deletions, then the upsertions."""
    found: dict[str, list[ScramAlteration]] = {}
    alterations: list[ScramAlteration] = [*deletions, *upsertions]
    for alteration in alterations:
        found.setdefault(alteration.user, []).append(alteration)
    return found


def alter_credentials(
    image: ClusterImage, alterations: Mapping[str, Sequence[ScramAlteration]]
) -> tuple[list[Write], dict[str, Refused]]:
    """Return the write that makes the alterations, and the refusals by user.

    `alterations` has at most MAX_ALTERED_AT_ONCE users, each with at least one alteration.
    """
    refused: dict[str, Refused] = {}
    conditions: list[Written] = []
    operations: list[WriteOperation] = []
    for user, of_user in alterations.items():
        try:
            operation, condition = _decided(image, of_user)
        except Refused as refusal:
            refused[user] = refusal
        else:
            conditions.append(condition)
            operations.append(operation)
    return [Write(tuple(conditions), tuple(operations))] if operations else [], refused


def put_credential(user: ScramUser, credential: ScramCredential) -> Put:
    """Return the operation that stores a credential."""
    return Put(records.scram_key(*user), records.encode(ScramCredentialRecord(*credential)))


def _decided(
    image: ClusterImage, alterations: Sequence[ScramAlteration]
) -> tuple[WriteOperation, Written]:
    """Return the operation for a user, and its condition. Raises Refused.

    If the first alteration of the user is invalid, its error is raised. Otherwise a second
    alteration is refused.
    """
    alteration, *others = alterations
    user = _checked(image, alteration)
    if others:
        raise Refused(
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        )
    key = records.scram_key(*user)
    condition = Written(key, image.scram_revision(user))
    if isinstance(alteration, ScramDeletion):
        return Delete(key), condition
    if not alteration.salted_password:
        # Java has no HMAC with an empty key: Kafka has no message for this error.
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    credential = credential_of(
        user[0], alteration.salt, alteration.salted_password, alteration.iterations
    )
    return put_credential(user, credential), condition


def _checked(image: ClusterImage, alteration: ScramAlteration) -> ScramUser:
    """Return the mechanism and the user of a valid alteration. Raises Refused."""
    if not alteration.user:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    try:
        user = ScramMechanism(alteration.mechanism), alteration.user
    except ValueError:
        code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        raise Refused(code, "Unknown SCRAM mechanism") from None
    if isinstance(alteration, ScramDeletion):
        if user not in image.scram_credentials:
            raise Refused(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
    elif alteration.iterations < LEAST_ITERATIONS:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    elif alteration.iterations > MOST_ITERATIONS:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return user

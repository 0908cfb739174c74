"""Alterations of SCRAM credentials: the writes, and the image that they lead to."""

from __future__ import annotations

import json
from typing import Final

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.security.scram_credential import ScramMechanism, credential_of
from oncelog_server.cluster.records import ScramCredentialRecord
from oncelog_server.cluster.scram_changes import (
    MAX_ALTERED_AT_ONCE,
    ScramAlteration,
    ScramDeletion,
    ScramUpsertion,
    alter_credentials,
    by_user,
)
from oncelog_server.cluster.security_records import scram_user
from oncelog_server.cluster.store import MAX_OPERATIONS, Put, Written
from oncelog_server.refusal import Refused
from tests.server.cluster.clusters import Cluster

SHA_256, SHA_512 = ScramMechanism
SALT, SALTED = b"salt", b"salted"
CREDENTIAL = credential_of(SHA_256, SALT, SALTED, 4096)


def upsertion(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramUpsertion:
    return ScramUpsertion(user, mechanism, iterations, SALT, SALTED)


def altered(cluster: Cluster, *alterations: ScramAlteration) -> dict[str, Refused]:
    """Make the alterations. Return the refusals by user."""
    deletions = [row for row in alterations if isinstance(row, ScramDeletion)]
    upsertions = [row for row in alterations if isinstance(row, ScramUpsertion)]
    writes, refused = alter_credentials(cluster.image, by_user(deletions, upsertions))
    assert cluster.apply(writes)
    return refused


def test_credentials_are_added_replaced_and_removed() -> None:
    cluster = Cluster()
    assert altered(cluster, upsertion("alice"), upsertion("a/b", SHA_512)) == {}
    assert cluster.image.scram_credentials == {
        (SHA_256, "alice"): CREDENTIAL,
        (SHA_512, "a/b"): credential_of(SHA_512, SALT, SALTED, 4096),
    }
    altered(cluster, upsertion("alice", SHA_512), ScramDeletion("a/b", SHA_512))
    altered(cluster, upsertion("alice", iterations=8192))
    assert {user: row.iterations for user, row in cluster.image.scram_credentials.items()} == {
        (SHA_256, "alice"): 8192,
        (SHA_512, "alice"): 4096,
    }
    assert cluster.image.scram_revision((SHA_512, "a/b")) == 0


EXISTING: Final = ScramDeletion("alice", SHA_256)
MISSING: Final = ScramDeletion("alice", SHA_512)
UNNAMED = (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
UNKNOWN = (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
ABSENT = (
    ErrorCode.RESOURCE_NOT_FOUND,
    "Attempt to delete a user credential that does not exist",
)
TWICE = (
    ErrorCode.DUPLICATE_RESOURCE,
    "A user credential cannot be altered twice in the same request",
)
FEW = (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
MANY = (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")


@pytest.mark.parametrize(
    ("alterations", "expected"),
    [
        ([ScramDeletion("", SHA_256)], UNNAMED),
        ([ScramDeletion("", 9)], UNNAMED),
        ([upsertion("", 9, 1)], UNNAMED),
        ([ScramDeletion("alice", 0)], UNKNOWN),
        ([upsertion("alice", 3, 1)], UNKNOWN),
        ([MISSING], ABSENT),
        ([upsertion("alice", SHA_256, 4095)], FEW),
        ([upsertion("alice", SHA_512, 4095)], FEW),
        ([upsertion("alice", SHA_256, 16_385)], MANY),
        ([upsertion("alice")._replace(salted_password=b"")], (ErrorCode.UNKNOWN_SERVER_ERROR, "")),
        ([EXISTING, EXISTING], TWICE),
        ([EXISTING, upsertion("alice", SHA_512)], TWICE),
        ([EXISTING, upsertion("alice", 9)], TWICE),
        ([EXISTING, MISSING], TWICE),
        ([MISSING, EXISTING], ABSENT),
        ([MISSING, upsertion("alice")], ABSENT),
        ([upsertion("alice"), upsertion("alice", SHA_512), upsertion("alice")], TWICE),
        ([upsertion("alice", iterations=1), upsertion("alice")], FEW),
    ],
)
def test_an_invalid_alteration_has_kafkas_error_and_no_effect(
    alterations: list[ScramAlteration], expected: tuple[ErrorCode, str]
) -> None:
    cluster = Cluster()
    altered(cluster, upsertion("alice"))
    before = cluster.image.scram_credentials
    refused = altered(cluster, *alterations, upsertion("bob"))
    assert {user: (row.code, row.message) for user, row in refused.items()} == {
        alterations[0].user: expected
    }
    assert cluster.image.scram_credentials == {**before, (SHA_256, "bob"): CREDENTIAL}


@pytest.mark.parametrize("iterations", [4096, 16_384])
def test_the_limits_of_iterations_are_valid(iterations: int) -> None:
    assert altered(Cluster(), upsertion("alice", iterations=iterations)) == {}


def test_a_write_holds_only_for_the_credential_that_it_was_decided_on() -> None:
    cluster = Cluster()
    (first,), _ = alter_credentials(cluster.image, by_user([], [upsertion("alice")]))
    assert first.compare == (Written("scram/SCRAM-SHA-256/alice", 0),)
    cluster.apply([first])
    (second,), _ = alter_credentials(cluster.image, by_user([EXISTING], []))
    revision = cluster.image.scram_revision((SHA_256, "alice"))
    assert second.compare == (Written("scram/SCRAM-SHA-256/alice", revision),)
    assert not cluster.apply([first])


def test_the_users_of_a_part_fit_into_a_transaction() -> None:
    upsertions = [upsertion(f"user-{number}") for number in range(MAX_ALTERED_AT_ONCE)]
    (write,), _ = alter_credentials(Cluster().image, by_user([], upsertions))
    assert len(write.operations) == len(write.compare) == MAX_OPERATIONS


def test_an_alteration_gives_another_mapping_and_other_changes_do_not() -> None:
    cluster = Cluster()
    altered(cluster, upsertion("alice"))
    before = cluster.image.scram_credentials
    cluster.create("t")
    assert cluster.image.scram_credentials is before
    altered(cluster, upsertion("bob"))
    assert cluster.image.scram_credentials is not before
    assert (SHA_256, "bob") not in before


def test_the_record_is_json_with_base64_and_without_the_salted_password() -> None:
    (write,), _ = alter_credentials(Cluster().image, by_user([], [upsertion("alice")]))
    (put,) = write.operations
    assert isinstance(put, Put)
    value = json.loads(put.value)
    assert (value["salt"], value["iterations"]) == ("c2FsdA==", 4096)
    assert set(value) == {"salt", "stored_key", "server_key", "iterations"}
    assert "c2FsdGVk" not in put.value.decode()


@pytest.mark.parametrize("key", ["scram/SCRAM-SHA-1/x", "scram/PLAIN/x", "scram/x"])
def test_a_key_of_another_mechanism_is_an_error(key: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        scram_user(key)


def test_no_text_of_these_values_has_a_secret() -> None:
    record = ScramCredentialRecord(*CREDENTIAL)
    shown = f"{record!r}{record}{upsertion('alice')!r}{upsertion('alice')}"
    for secret in (SALT, SALTED, CREDENTIAL.stored_key, CREDENTIAL.server_key):
        assert repr(secret)[2:-1] not in shown.replace("salted_password", "")

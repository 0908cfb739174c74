"""The APIs of SCRAM credentials get the same responses from oncelog and from Apache Kafka, and the
credentials survive a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialsDescription,
    UserScramCredentialUpsertion,
)

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from oncelog_protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.conformance.conftest import Target
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK
from tests.harness.waiting import wait_until

DONE = ("NONE", None)
UNKNOWN = ("UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism")
TWICE = ("DUPLICATE_RESOURCE", "A user credential cannot be altered twice in the same request")


def said(response: Any) -> tuple[str, str | None]:
    """Return the name of the error code, and the message."""
    return ErrorCode(response.error_code).name, response.error_message


def upsertion(user: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(user, mechanism, iterations, b"salt", b"salted")


def altered(
    wire: Wire,
    deletions: list[ScramCredentialDeletion],
    *upsertions: ScramCredentialUpsertion,
) -> dict[str, tuple[str, str | None]]:
    response = wire.call(AlterUserScramCredentialsRequest(deletions, [*upsertions]))
    return {result.user: said(result) for result in response.results}


def described(wire: Wire, *users: str) -> dict[str, tuple[str, str | None, list[tuple[int, int]]]]:
    """Return the code, the message and (mechanism, iterations) of the credentials of each user."""
    names = [UserName(user) for user in users]
    response = wire.call(DescribeUserScramCredentialsRequest(names or None))
    assert said(response) == ("NONE", "")
    return {
        row.user: (
            *said(row),
            sorted((info.mechanism, info.iterations) for info in row.credential_infos),
        )
        for row in response.results
    }


def wait_for(wire: Wire, user: str, *infos: tuple[int, int]) -> None:
    """Wait for these credentials of a user: Kafka responds before its broker knows of them."""
    wait_until(lambda: described(wire, user)[user][2] == [*infos], f"the credentials of {user}")


def test_credentials_are_set_described_and_removed(wire: Wire, name: str) -> None:
    other = f"{name}/other"
    assert altered(wire, [], upsertion(name), upsertion(other, 2, 8192)) == {
        name: DONE,
        other: DONE,
    }
    wait_for(wire, other, (2, 8192))
    assert described(wire, name, other) == {
        name: ("NONE", "", [(1, 4096)]),
        other: ("NONE", "", [(2, 8192)]),
    }
    # Kafka loses a credential that is added together with the removal of the last one of its
    # mechanism (ScramDelta.apply), so these two have different mechanisms.
    assert altered(wire, [ScramCredentialDeletion(other, 2)], upsertion(name, 1, 16_384)) == {
        name: DONE,
        other: DONE,
    }
    assert altered(wire, [], upsertion(name, 2)) == {name: DONE}
    wait_for(wire, name, (1, 16_384), (2, 4096))
    absent = f"Attempt to describe a user credential that does not exist: {other}"
    assert described(wire, other) == {other: ("RESOURCE_NOT_FOUND", absent, [])}
    everything = described(wire)
    assert everything[name] == ("NONE", "", [(1, 16_384), (2, 4096)])
    assert other not in everything
    altered(wire, [ScramCredentialDeletion(name, 1)])
    altered(wire, [ScramCredentialDeletion(name, 2)])


def test_a_user_that_is_repeated_is_not_described(wire: Wire, name: str) -> None:
    twice = "Cannot describe SCRAM credentials for the same user twice in a single request: "
    assert described(wire, name, name) == {name: ("DUPLICATE_RESOURCE", f"{twice}{name}", [])}


def test_an_empty_list_of_users_stands_for_all(wire: Wire, name: str) -> None:
    altered(wire, [], upsertion(name))
    wait_for(wire, name, (1, 4096))
    response = wire.call(DescribeUserScramCredentialsRequest([]))
    assert name in {row.user for row in response.results}
    altered(wire, [ScramCredentialDeletion(name, 1)])


def test_credentials_that_cannot_be_altered(wire: Wire, name: str) -> None:
    deletions = [ScramCredentialDeletion("gone", 1), ScramCredentialDeletion("mechanism", 7)]
    upsertions = [
        upsertion("", 1),
        upsertion("unknown", 9),
        upsertion("few", 1, 4095),
        upsertion("many", 2, 16_385),
        upsertion("twice", 1),
        upsertion("twice", 2),
        upsertion("gone", 1),
    ]
    gone = "Attempt to delete a user credential that does not exist"
    assert altered(wire, deletions, *upsertions) == {
        "gone": ("RESOURCE_NOT_FOUND", gone),
        "mechanism": UNKNOWN,
        "": ("UNACCEPTABLE_CREDENTIAL", "Username must not be empty"),
        "unknown": UNKNOWN,
        "few": ("UNACCEPTABLE_CREDENTIAL", "Too few iterations"),
        "many": ("UNACCEPTABLE_CREDENTIAL", "Too many iterations"),
        "twice": TWICE,
    }


def test_confluents_admin_client_sets_describes_and_removes(target: Target, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": target.address})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 5000)
    added = UserScramCredentialUpsertion(name, info, b"a password", b"a salt")
    admin.alter_user_scram_credentials([added])[name].result(30)

    def mechanisms() -> list[tuple[ScramMechanism, int]]:
        found = admin.describe_user_scram_credentials([name])[name]
        try:
            description: UserScramCredentialsDescription = found.result(30)
        except Exception:
            return []
        return [(row.mechanism, row.iterations) for row in description.scram_credential_infos]

    wait_until(lambda: mechanisms() == [(ScramMechanism.SCRAM_SHA_512, 5000)], "the credential")
    removed = UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([removed])[name].result(30)
    wait_until(lambda: mechanisms() == [], "no credential")


@pytest.mark.parametrize("stop", ["stop", "kill"])
def test_credentials_survive_a_restart(tmp_path: Path, stop: str) -> None:
    broker = Oncelog(tmp_path, QUICK)
    with broker:
        with Wire(broker.address) as wire:
            altered(wire, [], upsertion("alice"), upsertion("bob", 2))
            altered(wire, [ScramCredentialDeletion("bob", 2)])
        getattr(broker, stop)()
        broker.start()
        with Wire(broker.address) as wire:
            assert described(wire) == {"alice": ("NONE", "", [(1, 4096)])}

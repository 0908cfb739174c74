from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.harness.certificates import Certificates
from tests.security.secured_broker import PASSWORD, USER, SecuredOncelog


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def secured(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[SecuredOncelog]:
    """A broker with all listeners, and the user USER in both mechanisms of SCRAM."""
    with SecuredOncelog(tmp_path_factory.mktemp("secured"), certificates) as broker:
        add_scram_user(broker, USER, PASSWORD)
        yield broker


class Listening(Protocol):
    """A broker with several listeners."""

    def address_of(self, listener: str) -> str: ...


def add_scram_user(broker: Listening, user: str, password: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address_of("PLAINTEXT")})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        upsertion = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(mechanism, 4096), password.encode()
        )
        for future in admin.alter_user_scram_credentials([upsertion]).values():
            future.result(30)

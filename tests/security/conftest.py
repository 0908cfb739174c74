from __future__ import annotations

from collections.abc import Iterator

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
        add_scram_user(broker.address_of("PLAINTEXT"), USER, PASSWORD)
        yield broker


def add_scram_user(address: str, user: str, password: str) -> None:
    """Set the password of a user for both mechanisms of SCRAM. `address` is that of a listener
    without security."""
    admin = AdminClient({"bootstrap.servers": address})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        upsertion = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(mechanism, 4096), password.encode()
        )
        for future in admin.alter_user_scram_credentials([upsertion]).values():
            future.result(30)

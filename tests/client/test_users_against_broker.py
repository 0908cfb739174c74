"""The admin client's SCRAM credentials, with oncelog and Apache Kafka."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client import Admin, KafkaError
from oncelog_client.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from oncelog_client.admin.users import _upsertion
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.secret import Secret
from oncelog_protocol.security.scram_credential import salted_password
from tests.harness.client_reading import eventually

SHA_256, SHA_512 = ScramMechanism
STRONG = ScramCredentialInfo(SHA_256, 8192)


def upsertion(
    user: str, info: ScramCredentialInfo | None = None, password: str = "pencil"
) -> UserScramCredentialUpsertion:
    return UserScramCredentialUpsertion(user, Secret(password), info or ScramCredentialInfo())


async def test_credentials_are_set_described_and_removed(bootstrap: str, name: str) -> None:
    async with Admin(bootstrap) as admin:
        other = f"{name}-other"
        await admin.alter_user_scram_credentials([upsertion(name), upsertion(other, STRONG)])

        async def both() -> bool:
            found = await admin.describe_user_scram_credentials()
            return name in found and other in found

        await eventually(both)
        assert await admin.describe_user_scram_credentials([name, other]) == {
            name: [ScramCredentialInfo(SHA_512, 4096)],
            other: [STRONG],
        }
        assert await admin.describe_user_scram_credentials([]) == {}
        await admin.alter_user_scram_credentials(
            [
                UserScramCredentialDeletion(name, SHA_512),
                UserScramCredentialDeletion(other, SHA_256),
            ]
        )

        async def none() -> bool:
            found = await admin.describe_user_scram_credentials()
            return name not in found and other not in found

        await eventually(none)


async def test_a_refused_alteration_raises_its_error_and_others_are_made(
    bootstrap: str, name: str
) -> None:
    async with Admin(bootstrap) as admin:
        absent = UserScramCredentialDeletion(f"{name}-absent", SHA_256)
        with pytest.raises(KafkaError, match="does not exist") as caught:
            await admin.alter_user_scram_credentials([absent, upsertion(name)])
        assert caught.value.code is ErrorCode.RESOURCE_NOT_FOUND

        async def made() -> bool:
            return name in await admin.describe_user_scram_credentials()

        await eventually(made)
        await admin.alter_user_scram_credentials([UserScramCredentialDeletion(name, SHA_512)])


@pytest.mark.parametrize("iterations", [-1, 0, 1, 4095, 16_385, 2_000_000_000])
async def test_a_wrong_number_of_iterations_is_refused_by_the_broker(
    bootstrap: str, name: str, iterations: int
) -> None:
    async with Admin(bootstrap) as admin:
        wrong = upsertion(name, ScramCredentialInfo(SHA_256, iterations))
        with pytest.raises(KafkaError, match="iterations") as caught:
            await admin.alter_user_scram_credentials([wrong])
        assert caught.value.code is ErrorCode.UNACCEPTABLE_CREDENTIAL


async def test_an_absent_user_and_an_empty_password_are_errors(bootstrap: str, name: str) -> None:
    async with Admin(bootstrap) as admin:
        with pytest.raises(KafkaError) as caught:
            await admin.describe_user_scram_credentials([name])
        assert caught.value.code is ErrorCode.RESOURCE_NOT_FOUND
        with pytest.raises(KafkaError, match="is empty") as caught:
            await admin.alter_user_scram_credentials([upsertion(name, password="")])
        assert caught.value.code is ErrorCode.UNACCEPTABLE_CREDENTIAL


def test_each_credential_has_a_salt_of_its_own() -> None:
    first, second = _upsertion(upsertion("a")), _upsertion(upsertion("a"))
    assert first.salt != second.salt
    assert len(first.salt) == 20
    given_salt = _upsertion(upsertion("a")._replace(salt=b"mine"))
    assert given_salt.salt == b"mine"
    assert given_salt.salted_password == salted_password(SHA_512, "pencil", b"mine", 4096)


# The password has no letter of the names in these texts.
@given(st.text(alphabet="äöüßÄÖÜ", min_size=2))
def test_no_text_has_the_password(password: str) -> None:
    row = upsertion("alice", password=password)
    assert password not in f"{row!r} {row} {row._asdict()} {_upsertion(row)!r}"

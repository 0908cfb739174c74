"""The credential of a SCRAM user, against scramp."""

from __future__ import annotations

from base64 import b64decode

import pytest
from scramp import ScramMechanism as Scramp

from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.scram_credential import (
    ScramMechanism,
    credential_of,
    salted_password,
)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_credential_is_that_of_scramp(mechanism: ScramMechanism) -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")  # RFC 7677, section 3
    expected = Scramp(mechanism.sasl).make_auth_info("pencil", 4096, salt)

    credential = credential_of(
        mechanism, salt, salted_password(mechanism, "pencil", salt, 4096), 4096
    )

    assert credential == expected


def test_each_scram_mechanism_has_its_name_of_sasl() -> None:
    names = [mechanism.sasl for mechanism in ScramMechanism]

    assert names == [SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512]


def test_a_credential_hides_its_keys_from_a_log() -> None:
    credential = credential_of(ScramMechanism.SCRAM_SHA_256, b"salt", b"salted", 4096)

    assert repr(credential) == "ScramCredential(iterations=4096)"

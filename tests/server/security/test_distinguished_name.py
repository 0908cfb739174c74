"""The principal's name is the subject of the certificate."""

from __future__ import annotations

from pathlib import Path

from oncelog_server.security.distinguished_name import distinguished_name
from tests.harness.certificates import Certificates


def test_the_subject_of_a_certificate_is_read(tmp_path: Path) -> None:
    alice = Certificates(tmp_path).client("alice")
    assert distinguished_name(alice.der) == "CN=alice,OU=tests,O=oncelog"

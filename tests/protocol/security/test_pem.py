"""Blocks of PEM are found in every form in which files and properties have them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.security.pem import PemBlock, PemError, blocks
from tests.harness.certificates import Certificates


@given(st.lists(st.tuples(st.sampled_from(["CERTIFICATE", "PRIVATE KEY"]), st.binary())))
def test_blocks_are_read_as_they_are_written(pairs: list[tuple[str, bytes]]) -> None:
    written = [PemBlock(*pair) for pair in pairs]
    text = "text before\n".join(["", *(block.text() for block in written), "after"])
    assert blocks(text) == written
    # A properties file has the value in one line.
    assert blocks(text.replace("\n", " ")) == written
    assert blocks(text.replace("\n", "\r\n")) == written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-----BEGIN PRIVATE KEY-----\nQUJD\n", "a block PRIVATE KEY without its line END"),
        ("-----BEGIN PRIVATE KEY", "a line BEGIN without its dashes"),
        ("-----BEGIN A-----\nS3cret!\n-----END A-----", "a block A that is not base64"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nQUJD\n"
            "-----END RSA PRIVATE KEY-----",
            "openssl pkcs8 -topk8",
        ),
    ],
)
def test_other_texts_are_refused_without_their_content(text: str, message: str) -> None:
    with pytest.raises(PemError, match=message) as error:
        blocks(text)
    assert "S3cret" not in str(error.value)


def test_a_block_with_a_key_is_not_printed(certificates: Certificates) -> None:
    (key,) = blocks(certificates.server.pkcs8_key())
    assert repr(key) == f"PemBlock('PRIVATE KEY', {len(key.der)} bytes)"

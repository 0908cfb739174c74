"""The parts of a certificate are those that the library cryptography finds."""

from __future__ import annotations

import datetime

import pytest
import trustme
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.security.certificate import gap_in, ordered_chain, parsed, subject_of
from oncelog_protocol.security.der import DerError, identifier, sequence
from tests.harness.certificates import Certificates
from tests.protocol.security.store_files import der_chain


def test_the_parts_are_those_of_another_library(certificates: Certificates) -> None:
    for der in [
        certificates.server.der,
        *der_chain(certificates.with_intermediate.chain),
        *der_chain(certificates.authority_pem),
    ]:
        ours, theirs = parsed(der), x509.load_der_x509_certificate(der)
        assert ours.subject == subject_of(der) == theirs.subject.public_bytes()
        assert ours.issuer == theirs.issuer.public_bytes()
        assert ours.not_before_ms == theirs.not_valid_before_utc.timestamp() * 1_000
        assert ours.not_after_ms == theirs.not_valid_after_utc.timestamp() * 1_000
        extensions = theirs.extensions
        try:
            names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            names = x509.SubjectAlternativeName([])
        assert len(ours.names) == len(list(names))
    assert any(b"localhost" in name for name in parsed(certificates.server.der).names)


def test_a_chain_is_put_in_order(certificates: Certificates) -> None:
    root = der_chain(certificates.authority_pem)
    leaf, intermediate = der_chain(certificates.with_intermediate.chain)
    foreign = certificates.client("eve").der
    ordered = (leaf, intermediate, *root)
    assert ordered_chain(leaf, [*root, foreign, intermediate]) == ordered
    assert ordered_chain(leaf, []) == (leaf,)
    assert ordered_chain(root[0], root) == (root[0],)
    assert gap_in(ordered) is None
    assert gap_in((leaf, *root, intermediate)) == 1
    assert gap_in((leaf, intermediate, foreign)) == 2


@pytest.mark.parametrize("year", [1950, 1999, 2049, 2050])
def test_years_of_two_digits_are_those_of_rfc_5280(year: int) -> None:
    date = datetime.datetime(year, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
    leaf = trustme.CA().issue_cert("localhost", not_before=date, not_after=date)
    (der,) = der_chain(leaf.cert_chain_pems[0].bytes().decode())
    assert parsed(der).not_before_ms == parsed(der).not_after_ms == date.timestamp() * 1_000


@given(data=st.data())
def test_damaged_bytes_raise_one_error(certificates: Certificates, data: st.DataObject) -> None:
    der = bytearray(certificates.server.der)
    for _ in range(data.draw(st.integers(1, 3))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(der)))
    for changed in (bytes(der), bytes(der[:cut])):
        try:
            found = parsed(changed)
        except DerError:
            continue
        assert found.subject[:1] == b"\x30"


@pytest.mark.parametrize(
    ("content", "text"),
    [("550403", "2.5.4.3"), ("883703", "2.999.3"), ("2a864886f70d010901", "1.2.840.113549.1.9.1")],
)
def test_an_identifier_has_its_numbers(content: str, text: str) -> None:
    assert identifier(bytes.fromhex(content)) == text


@pytest.mark.parametrize("der", ["", "30", "3001", "30800000", "3f0100", "308500000000010000"])
def test_an_element_that_is_no_der_is_refused(der: str) -> None:
    with pytest.raises(DerError):
        sequence(bytes.fromhex(der))

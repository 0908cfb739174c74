"""A listener takes new certificates only if its clients still trust them."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.certificate import expiry_ms, parsed
from oncelog_protocol.security.pem import PemBlock, blocks
from oncelog_protocol.security.tls_settings import TlsSettings
from oncelog_protocol.tls.contexts import LoadedTls, load_server
from oncelog_protocol.tls.reload import file_versions, refused_reload
from tests.harness.certificates import Certificates, Identity

DAY_MS = 24 * 3_600_000
NOW_MS = int(datetime.datetime.now(datetime.UTC).timestamp() * 1_000)


def time_text(time_ms: int) -> str:
    return datetime.datetime.fromtimestamp(time_ms / 1_000, datetime.UTC).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )


def loaded(identity: Identity, chain: str = "") -> LoadedTls:
    return load_server(
        TlsSettings(
            keystore_type="PEM",
            keystore_key=Secret(identity.key),
            keystore_certificate_chain=Secret(chain or identity.chain),
        )
    )


@pytest.fixture
def current(certificates: Certificates) -> LoadedTls:
    return loaded(certificates.identity("localhost", "127.0.0.1", name="a", common_name="broker"))


def renewed(certificates: Certificates, *names: str, common_name: str = "broker") -> LoadedTls:
    return loaded(certificates.identity(*names, name="b", common_name=common_name))


def test_a_renewed_certificate_is_accepted(certificates: Certificates, current: LoadedTls) -> None:
    for names in (("localhost", "127.0.0.1"), ("127.0.0.1", "more.test", "localhost")):
        assert refused_reload(current, renewed(certificates, *names), now_ms=NOW_MS) is None


def test_another_subject_needs_its_setting(certificates: Certificates, current: LoadedTls) -> None:
    new = renewed(certificates, "localhost", "127.0.0.1", common_name="other")
    reason = refused_reload(current, new, now_ms=NOW_MS)
    assert reason is not None
    assert "CN=other" in reason
    assert "CN=broker" in reason
    assert "ssl.allow.dn.changes" in reason
    assert refused_reload(current, new, now_ms=NOW_MS, allow_dn_changes=True) is None
    same = renewed(certificates, "localhost", "127.0.0.1", common_name="BROKER")
    assert refused_reload(current, same, now_ms=NOW_MS) is None


def test_fewer_names_need_their_setting(certificates: Certificates, current: LoadedTls) -> None:
    new = renewed(certificates, "localhost")
    assert refused_reload(current, new, now_ms=NOW_MS) == (
        "the new certificate lacks alternative names of the current one: "
        "ssl.allow.san.changes=true allows a change"
    )
    assert refused_reload(current, new, now_ms=NOW_MS, allow_san_changes=True) is None


def test_dates_are_those_of_the_clock(certificates: Certificates, current: LoadedTls) -> None:
    expiry = expiry_ms(current.chain)
    assert 89 * DAY_MS < expiry - NOW_MS < 91 * DAY_MS
    assert refused_reload(current, current, now_ms=expiry) is None
    assert refused_reload(current, current, now_ms=expiry + 1) == (
        f"certificate 1 of 1 in the chain expired at {time_text(expiry)}"
    )
    begin = parsed(current.chain[0]).not_before_ms
    assert refused_reload(current, current, now_ms=begin - 1) == (
        f"certificate 1 of 1 in the chain is not valid before {time_text(begin)}"
    )


@pytest.mark.parametrize("client_auth", ["none", "required"])
@pytest.mark.parametrize("versions", [("TLSv1.2",), ("TLSv1.3",)])
def test_a_signature_of_another_authority_is_found(
    certificates: Certificates, client_auth: str, versions: tuple[str, ...]
) -> None:
    """The chain has the right names, and the signature is damaged."""
    identity = certificates.with_intermediate
    settings = certificates.server_settings(client_auth)._replace(
        keystore_location=None,
        keystore_key=Secret(identity.key),
        keystore_certificate_chain=Secret(identity.chain),
        enabled_protocols=versions,
    )
    good = load_server(settings)
    assert refused_reload(good, good, now_ms=NOW_MS) is None
    leaf, *others = blocks(identity.chain)
    damaged = PemBlock(leaf.label, leaf.der[:-1] + bytes([leaf.der[-1] ^ 1]))
    text = "".join(block.text() for block in (damaged, *others))
    bad = load_server(settings._replace(keystore_certificate_chain=Secret(text)))
    assert refused_reload(good, bad, now_ms=NOW_MS) == (
        "the certificate of the peer is not valid: certificate signature failure"
    )


def test_a_changed_file_has_another_version(certificates: Certificates, tmp_path: Path) -> None:
    settings = certificates.server_settings()
    before = file_versions(settings)
    assert before == file_versions(settings)
    copy = tmp_path / "copy.pem"
    copy.write_bytes(certificates.server.pem_path.read_bytes())
    moved = settings._replace(keystore_location=str(copy))
    first = file_versions(moved)
    os.utime(copy, ns=(1, 1))
    assert file_versions(moved)[0] != first[0]
    assert file_versions(moved)[1] == before[1]
    copy.unlink()
    assert file_versions(moved)[0] is None

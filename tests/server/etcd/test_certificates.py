"""New files of certificates count for new connections to etcd, and unusable ones do not."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from oncelog_protocol.security.tls_settings import TlsSettings
from oncelog_server.etcd.certificates import EtcdCertificates
from tests.harness.certificates import Certificates
from tests.harness.etcd import Etcd
from tests.server.etcd.stores import opened


def settings_of(keystore: Path, authority: Path) -> TlsSettings:
    return TlsSettings(
        keystore_type="PEM",
        keystore_location=str(keystore),
        truststore_type="PEM",
        truststore_location=str(authority),
    )


def test_changed_files_are_read_once_and_unusable_ones_leave_the_old_certificates(
    tmp_path: Path,
) -> None:
    authority = Certificates(tmp_path)
    keystore = tmp_path / "keystore"
    keystore.write_text(authority.server.pem)
    certificates = EtcdCertificates(settings_of(keystore, authority.authority_path))
    first = certificates.context()
    assert certificates.context() is first
    with structlog.testing.capture_logs() as events:
        keystore.write_text("no certificate")
        assert certificates.context() is first
        assert certificates.context() is first
        keystore.write_text(authority.broker("renewed").pem)
        second = certificates.context()
        assert second is not first
        assert certificates.context() is second
    assert [event["event"] for event in events] == [
        "certificates for etcd not reloaded",
        "certificates for etcd reloaded",
    ]
    assert "ssl.keystore" in events[0]["reason"]


@pytest.mark.process
async def test_a_store_connects_with_the_certificates_of_the_present_files(
    etcd_program: str, tmp_path: Path
) -> None:
    authority = Certificates(tmp_path)
    (tmp_path / "foreign").mkdir()
    keystore = tmp_path / "keystore"
    keystore.write_text(Certificates(tmp_path / "foreign").server.pem)
    certificates = EtcdCertificates(settings_of(keystore, authority.authority_path))
    with Etcd(tmp_path / "etcd", certificates=authority, demands_certificates=True) as etcd:
        async with opened(*etcd.urls, context=certificates.context) as store:
            with pytest.raises(OSError, match="etcd"):
                await store.renew_lease(1)
            keystore.write_text(authority.server.pem)
            assert await store.get("a") is None

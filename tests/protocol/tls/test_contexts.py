"""Contexts of listeners and clients present and trust what the settings say."""

from __future__ import annotations

import os
import ssl
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.tls_settings import TlsSettings, TlsSettingsError
from oncelog_protocol.tls import contexts
from oncelog_protocol.tls.contexts import client_context, load_client, load_server, server_context
from oncelog_protocol.tls.engine import TlsEngine, TlsFailed
from tests.harness.certificates import PASSWORD, Certificates
from tests.harness.descriptors import descriptors_of
from tests.protocol.tls.pair import shake_hands


def works(server: TlsSettings, client: TlsSettings) -> TlsEngine:
    """Connect. Return the listener's engine."""
    engine = TlsEngine(server_context(server))
    shake_hands(TlsEngine(client_context(client), "localhost"), engine)
    return engine


def inline(certificates: Certificates, **changes: Any) -> TlsSettings:
    """Return a listener's settings with an encrypted key in the settings themselves."""
    return TlsSettings(
        keystore_type="PEM",
        keystore_key=Secret(certificates.server.encrypted_key("own")),
        keystore_certificate_chain=Secret(certificates.server.chain),
        key_password=Secret("own"),
    )._replace(**changes)


def test_each_form_of_a_key_store_serves(certificates: Certificates) -> None:
    client = certificates.client_settings()
    pkcs12 = TlsSettings(
        keystore_location=str(certificates.server.pkcs12_path), keystore_password=Secret(PASSWORD)
    )
    one_line = Secret(certificates.server.chain.replace("\n", " "))
    for server in (
        certificates.server_settings(),
        pkcs12,
        pkcs12._replace(keystore_type="PKCS12", key_password=Secret(PASSWORD)),
        inline(certificates),
        inline(certificates, keystore_certificate_chain=one_line),
    ):
        assert works(server, client).is_open
        assert load_server(server).chain == (certificates.server.der,)


@pytest.mark.parametrize("memory", [True, False])
def test_keys_leave_no_file(
    certificates: Certificates, memory: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If the system has no files in memory, the key is in a temporary file for a moment. Only the
    user can read it."""
    found: list[os.stat_result] = []

    def seen(self: ssl.SSLContext, path: str, *rest: object, **more: object) -> None:
        found.append(os.stat(path))
        assert descriptors_of(found) == 1
        assert path.startswith("/proc/self/fd/" if memory else str(tmp_path))
        load(self, path, *rest, **more)  # type: ignore[arg-type]

    load = ssl.SSLContext.load_cert_chain
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", seen)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if not memory:
        monkeypatch.setattr(sys, "platform", "darwin")
    elif sys.platform != "linux":
        pytest.skip("files in memory need Linux")
    server_context(inline(certificates))
    with pytest.raises(TlsSettingsError):
        server_context(inline(certificates, key_password=Secret("S3cret!")))
    assert list(tmp_path.iterdir()) == []
    assert descriptors_of(found) == 0
    assert len(found) == 2
    if not memory:
        assert {stat.S_IMODE(file.st_mode) for file in found} == {0o600}


def test_an_intermediate_certificate_is_presented_and_may_be_trusted_alone(
    certificates: Certificates,
) -> None:
    """Java trusts each certificate of a trust store, without the authority above it."""
    identity = certificates.with_intermediate
    server = certificates.server_settings()._replace(
        keystore_location=str(identity.pem_path), keystore_type="PEM"
    )
    assert works(server, certificates.client_settings()).is_open
    end = "-----END CERTIFICATE-----\n"
    leaf, intermediate = (block + end for block in identity.chain.split(end) if block.strip())
    for trusted in (leaf, intermediate):
        client = TlsSettings(truststore_type="PEM", truststore_certificates=Secret(trusted))
        assert works(server, client).is_open
    other = TlsSettings(
        truststore_type="PEM", truststore_certificates=Secret(certificates.server.chain)
    )
    with pytest.raises(TlsFailed, match="the certificate of the peer is not valid"):
        works(server, other)


def test_a_listener_presents_no_certificate_of_its_trust_store(certificates: Certificates) -> None:
    """OpenSSL would build a chain anew for each client. Java presents that of the key store."""
    server = TlsEngine(server_context(certificates.server_settings()))
    client = TlsEngine(client_context(certificates.client_settings()), "localhost")
    shake_hands(client, server)
    presented = client._tls._sslobj.get_unverified_chain()  # type: ignore[attr-defined]
    assert len(presented) == 1


def test_a_client_without_a_trust_store_trusts_the_system(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TlsFailed, match="the certificate of the peer is not valid"):
        works(certificates.server_settings(), TlsSettings())
    # OpenSSL's own variable for the authorities of the system.
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority_path))
    assert works(certificates.server_settings(), TlsSettings()).is_open
    assert load_client(TlsSettings()).chain == ()


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_one_version_is_used_alone(certificates: Certificates, version: str) -> None:
    only = certificates.server_settings()._replace(enabled_protocols=(version,))
    assert works(only, certificates.client_settings()).description()[0] == version


def test_a_chosen_suite_is_used(certificates: Certificates) -> None:
    server = certificates.server_settings()._replace(
        cipher_suites=("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",)
    )
    found = works(server, certificates.client_settings()).description()
    assert found == ("TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305")
    context = server_context(certificates.server_settings())
    assert not [each["name"] for each in context.get_ciphers() if not each["aead"]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keystore_location": "/nonexistent"}, "/nonexistent cannot be read: No such file"),
        ({"keystore_location": "/"}, "/ cannot be read: Is a directory"),
        ({"keystore_location": "a\0b"}, "cannot be read: embedded null byte"),
        ({"truststore_location": "/nonexistent"}, "/nonexistent cannot be read"),
        ({"truststore_location": "/etc/hostname"}, "/etc/hostname is neither PEM nor"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    certificates: Certificates, changes: dict[str, str], message: str
) -> None:
    if not Path("/etc/hostname").exists():
        pytest.skip("no /etc/hostname")
    ((name, _),) = changes.items()
    setting = f"ssl.{name.replace('_', '.')}"
    with pytest.raises(TlsSettingsError, match=message) as error:
        server_context(certificates.server_settings()._replace(**changes))  # type: ignore[arg-type]
    assert error.value.setting == setting


def test_a_pair_that_does_not_fit_is_named(certificates: Certificates) -> None:
    other = Secret(certificates.client("other").chain)
    with pytest.raises(TlsSettingsError, match="a key that does not fit its certificate"):
        server_context(inline(certificates, keystore_certificate_chain=other))
    with pytest.raises(
        TlsSettingsError, match=r"another password than ssl\.key\.password"
    ) as error:
        server_context(inline(certificates, key_password=Secret("S3cret!")))
    assert "S3cret" not in str(error.value)
    damaged = Secret("-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----")
    with pytest.raises(TlsSettingsError, match=r"ssl\.keystore\.key: the value has a damaged key"):
        server_context(inline(certificates, keystore_key=damaged, key_password=None))


def test_a_store_that_is_too_large_is_not_read(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contexts, "_MOST_STORE_BYTES", 1_000)
    path = tmp_path / "large"
    path.write_bytes(bytes(1_001))
    with pytest.raises(TlsSettingsError, match="is too large for a store"):
        client_context(TlsSettings(truststore_location=str(path)))


def test_another_identification_algorithm_is_refused() -> None:
    with pytest.raises(TlsSettingsError, match="is neither https nor empty"):
        client_context(TlsSettings(endpoint_identification_algorithm="LDAPS"))
    assert client_context(TlsSettings(endpoint_identification_algorithm="HTTPS")).check_hostname


def test_a_listener_checks_its_settings_before_its_files() -> None:
    with pytest.raises(TlsSettingsError, match=r"^ssl\.keystore\.location: a listener"):
        server_context(TlsSettings())

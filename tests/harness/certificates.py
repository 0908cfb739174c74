"""Certificates for the tests: an authority, a broker's certificate for localhost, and clients, as
PEM, PKCS12 and (with keytool) JKS."""

from __future__ import annotations

import datetime
import shutil
import ssl
import subprocess
from functools import cached_property
from pathlib import Path
from typing import Final

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.tls_settings import TlsSettings

PASSWORD: Final = "store-password"
# Mozilla's profile demands less than 366 days.
LIFETIME: Final = datetime.timedelta(days=90)
_NO_ENCRYPTION: Final = serialization.NoEncryption()
KEYTOOL_TIMEOUT_S: Final = 60.0


class NoKeytool(Exception):
    """There is no keytool on the PATH."""


class Identity:
    """A certificate with its key. `chain` and `key` are PEM."""

    def __init__(self, leaf: trustme.LeafCert, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self.key = leaf.private_key_pem.bytes().decode()
        self.chain = "".join(blob.bytes().decode() for blob in leaf.cert_chain_pems)

    @property
    def pem(self) -> str:
        return self.key + self.chain

    @property
    def der(self) -> bytes:
        """Return the certificate in DER, without its chain."""
        return ssl.PEM_cert_to_DER_cert(self.chain[: self.chain.index("-----END")] + _END)

    @cached_property
    def pem_path(self) -> Path:
        return self._written("pem", self.pem.encode())

    @cached_property
    def pkcs12_path(self) -> Path:
        """Return the path of a PKCS12 key store with the password PASSWORD."""
        certificates = x509.load_pem_x509_certificates(self.chain.encode())
        return self._written(
            "p12",
            pkcs12.serialize_key_and_certificates(
                self._name.encode(),
                self._private_key(),
                certificates[0],
                certificates[1:],
                serialization.BestAvailableEncryption(PASSWORD.encode()),
            ),
        )

    @cached_property
    def jks_path(self) -> Path:
        """Return the path of a JKS key store with the password PASSWORD. Raises NoKeytool."""
        path = self._folder / f"{self._name}.jks"
        keytool(
            "-importkeystore", "-srckeystore", str(self.pkcs12_path), "-srcstoretype", "PKCS12",
            "-srcstorepass", PASSWORD, "-destkeystore", str(path), "-deststoretype", "JKS",
            "-deststorepass", PASSWORD, "-noprompt",
        )  # fmt: skip
        return path

    def encrypted_key(self, password: str) -> str:
        """Return the key in PEM, encrypted."""
        return (
            self._private_key()
            .private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(password.encode()),
            )
            .decode()
        )

    def pkcs8_key(self) -> str:
        """Return the key in PEM as PKCS#8, the only form that Kafka reads."""
        return (
            self._private_key()
            .private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, _NO_ENCRYPTION
            )
            .decode()
        )

    def _private_key(self) -> ec.EllipticCurvePrivateKey:
        key = serialization.load_pem_private_key(self.key.encode(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key

    def _written(self, ending: str, data: bytes) -> Path:
        path = self._folder / f"{self._name}.{ending}"
        path.write_bytes(data)
        return path


_END: Final = "-----END CERTIFICATE-----\n"


class Certificates:
    """An authority and its certificates. All files are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.authority = trustme.CA(key_type=trustme.KeyType.ECDSA)

    @property
    def authority_pem(self) -> str:
        return self.authority.cert_pem.bytes().decode()

    @cached_property
    def authority_path(self) -> Path:
        path = self._folder / "authority.pem"
        path.write_text(self.authority_pem)
        return path

    @cached_property
    def trust_jks_path(self) -> Path:
        """Return the path of a JKS trust store with the password PASSWORD. Raises NoKeytool."""
        return self.trust_store("JKS")

    @cached_property
    def server(self) -> Identity:
        return self.broker("server")

    def broker(self, name: str, not_after: datetime.datetime | None = None) -> Identity:
        """Return a new certificate with the names of this computer."""
        return self.identity("localhost", "127.0.0.1", "::1", name=name, not_after=not_after)

    @cached_property
    def with_intermediate(self) -> Identity:
        """Return a certificate for localhost that an authority below `authority` has issued."""
        intermediate = self.authority.create_child_ca(key_type=trustme.KeyType.ECDSA)
        leaf = intermediate.issue_cert("localhost", key_type=trustme.KeyType.ECDSA)
        return Identity(leaf, self._folder, "intermediate")

    def identity(
        self,
        *names: str,
        name: str,
        common_name: str | None = None,
        not_after: datetime.datetime | None = None,
    ) -> Identity:
        """Return a certificate for these hosts; `name` names its files."""
        now = datetime.datetime.now(datetime.UTC)
        leaf = self.authority.issue_cert(
            *names,
            common_name=common_name,
            organization_name="oncelog",
            organization_unit_name="tests",
            not_before=now - datetime.timedelta(days=1),
            not_after=not_after or now + LIFETIME,
            key_type=trustme.KeyType.ECDSA,
        )
        return Identity(leaf, self._folder, name)

    def client(self, common_name: str) -> Identity:
        """Return a client's certificate. Its principal is `CN=<common name>,OU=tests,O=oncelog`."""
        return self.identity(
            f"{common_name}.client.test", name=common_name, common_name=common_name
        )

    def trust_store(self, kind: str) -> Path:
        """Return the path of a trust store of the type JKS or PKCS12. Raises NoKeytool."""
        path = self._folder / f"trust.{kind.lower()}"
        keytool(
            "-importcert", "-alias", "authority", "-file", str(self.authority_path),
            "-keystore", str(path), "-storetype", kind, "-storepass", PASSWORD, "-noprompt",
        )  # fmt: skip
        return path

    def server_settings(self, client_auth: str = "none") -> TlsSettings:
        """Return the settings of a listener with the stores as PEM files."""
        return TlsSettings(
            keystore_type="PEM",
            keystore_location=str(self.server.pem_path),
            truststore_type="PEM",
            truststore_location=str(self.authority_path),
            client_auth=client_auth,
        )

    def client_settings(self, identity: Identity | None = None) -> TlsSettings:
        """Return the settings of a client that trusts the authority, and shows a certificate if it
        has an identity."""
        settings = TlsSettings(
            truststore_type="PEM", truststore_certificates=Secret(self.authority_pem)
        )
        if identity is None:
            return settings
        return settings._replace(
            keystore_type="PEM",
            keystore_key=Secret(identity.key),
            keystore_certificate_chain=Secret(identity.chain),
        )


def keytool(*arguments: str) -> None:
    """Run Java's keytool. Raises NoKeytool without it."""
    program = shutil.which("keytool")
    if program is None:
        raise NoKeytool("no `keytool` on the PATH")
    subprocess.run(
        [program, *arguments], check=True, capture_output=True, timeout=KEYTOOL_TIMEOUT_S
    )

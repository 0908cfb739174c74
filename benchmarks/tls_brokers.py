"""Brokers that also listen with TLS 1.3, with the same certificate (PEM, ECDSA P-256)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from oncelog.testing.ports import reserve_port
from tests.harness.broker import Oncelog
from tests.harness.certificates import Certificates
from tests.harness.kafka.kafka import Kafka

_LISTENER: Final = "SSL"


class TlsFiles(NamedTuple):
    """PEM files: the broker's key with its certificates, and the authority that clients trust."""

    identity: Path
    authority: Path

    @property
    def broker_settings(self) -> dict[str, str]:
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.identity),
            "ssl.enabled.protocols": "TLSv1.3",
        }


class TlsEndpoint(NamedTuple):
    """A TLS listener, as its clients need it."""

    port: int
    authority: Path

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{_LISTENER}://{self.address}"


def tls_files(folder: Path) -> TlsFiles:
    """Return the files of a folder. The first call writes them."""
    files = TlsFiles(folder / "broker.pem", folder / "authority.pem")
    if not files.identity.exists():
        folder.mkdir(parents=True, exist_ok=True)
        certificates = Certificates(folder)
        # Kafka reads a key as PKCS#8 only.
        files.identity.write_text(certificates.server.pkcs8_key() + certificates.server.chain)
        assert certificates.authority_path == files.authority
    return files


class TlsOncelog(Oncelog):
    """An oncelog with the listeners PLAINTEXT and SSL. `tls` is the second."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str],
        environment: Mapping[str, str] | None,
        files: TlsFiles,
    ) -> None:
        super().__init__(directory, {**settings, **files.broker_settings}, environment)
        self._plain_port = reserve_port(self)
        self.tls = TlsEndpoint(reserve_port(self), files.authority)

    def _address_arguments(self) -> list[str]:
        listeners = f"PLAINTEXT://{self.host}:{self._plain_port},{self.tls.url}"
        return [
            *("--set", f"listeners={listeners}"),
            *("--set", f"advertised.listeners={listeners}"),
        ]


class TlsKafka(Kafka):
    """A Kafka with the listeners PLAINTEXT and SSL. `tls` is the second."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str],
        jvm_options: Sequence[str],
        files: TlsFiles,
    ) -> None:
        self.tls = TlsEndpoint(reserve_port(self), files.authority)
        super().__init__(directory, {**settings, **files.broker_settings}, jvm_options)

    def _default_settings(self) -> dict[str, str]:
        settings = super()._default_settings()
        protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL"
        return settings | {
            "listeners": f"{settings['listeners']},{self.tls.url}",
            "advertised.listeners": f"{settings['advertised.listeners']},{self.tls.url}",
            "listener.security.protocol.map": protocols,
        }

"""A broker with a listener of each of Kafka's security protocols, for clients of all kinds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from oncelog.testing.ports import reserve_port
from tests.harness.broker import Oncelog
from tests.harness.certificates import Certificates

# The listeners of the broker, with their protocols. Clients of MUTUAL must show a certificate.
LISTENERS: Final = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}
USER, PASSWORD = "alice", "canary-hunter2"
_PLAIN: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'user_{USER}="{PASSWORD}" user_bob="bobs";'
)


class SecuredOncelog(Oncelog):
    """`port` is that of PLAINTEXT; `ports` has those of all listeners."""

    def __init__(
        self,
        directory: Path,
        certificates: Certificates,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        identity = certificates.server
        secured = {
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in LISTENERS.items()
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(identity.pem_path),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.authority_path),
            "listener.name.mutual.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": _PLAIN,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": _PLAIN,
        }
        super().__init__(directory, secured | dict(settings or {}))
        self.ports = {name: reserve_port(self) for name in LISTENERS}

    def address_of(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    def _address_arguments(self) -> list[str]:
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        advertised = ",".join(f"{name}://localhost:{port}" for name, port in self.ports.items())
        return ["--set", f"listeners={listeners}", "--set", f"advertised.listeners={advertised}"]

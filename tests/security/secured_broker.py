"""A broker with a listener of each of Kafka's security protocols, for clients of all kinds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from oncelog.testing.broker import QUICK
from oncelog.testing.faults import Faults
from oncelog.testing.ports import reserve_port
from tests.harness.bearer_tokens import AUDIENCE, ISSUER, Issuer, claims
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
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
USER, PASSWORD = "alice", "canary-hunter2"
_PLAIN: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'user_{USER}="{PASSWORD}" user_bob="bobs";'
)
# The key that signs the tokens. The broker knows no other key of the issuer.
_KID: Final = "p256"


class SecuredOncelog(Oncelog):
    """`port` is that of PLAINTEXT; `ports` has those of all listeners. `faults` needs the argument
    `--allow-faults`."""

    # Settings with shorter waits than Kafka's.
    waits: ClassVar[Mapping[str, str]] = QUICK

    def __init__(
        self,
        directory: Path,
        certificates: Certificates,
        settings: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        identity = certificates.server
        directory.mkdir(parents=True, exist_ok=True)
        self._issuer = Issuer()
        keys = directory / "jwks.json"
        keys.write_bytes(self._issuer.jwks(_KID))
        secured = {
            **self.waits,
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in LISTENERS.items()
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(identity.pem_path),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.authority_path),
            "listener.name.mutual.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": _PLAIN,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": _PLAIN,
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }
        super().__init__(directory, secured | dict(settings or {}), arguments=arguments)
        self.ports = {name: reserve_port(self) for name in LISTENERS}
        self.faults = Faults(self.data)

    def address_of(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    def token(self, **changed: Any) -> str:
        """Return a bearer token of USER, valid for 10 minutes, with changed claims."""
        payload = claims(int(time.time()), **changed)
        return self._issuer.token(_KID, "ES256", payload)

    def _address_arguments(self) -> list[str]:
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        advertised = ",".join(f"{name}://localhost:{port}" for name, port in self.ports.items())
        return ["--set", f"listeners={listeners}", "--set", f"advertised.listeners={advertised}"]

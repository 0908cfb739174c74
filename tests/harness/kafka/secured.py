"""Apache Kafka with a listener for each security protocol, and users for each SASL mechanism."""

from __future__ import annotations

import asyncio
import json
import os
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from oncelog.testing.broker import QUICK
from oncelog.testing.ports import reserve_port
from oncelog_client.core.client_config import admin_config
from oncelog_client.errors import check
from oncelog_client.io.connection import Connection
from oncelog_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from oncelog_protocol.security.scram_credential import ScramMechanism, salted_password
from tests.harness.certificates import Certificates
from tests.harness.kafka.fixtures import QUIET
from tests.harness.kafka.kafka import Kafka

USER: Final = "alice"
PASSWORD: Final = 'p="a;ss\\word'
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SASL_LISTENERS: Final = ("SASL_PLAINTEXT", "SASL_SSL")
# The listener of each security protocol has the protocol's name.
LISTENERS: Final = ("SSL", *SASL_LISTENERS)
# The clients authenticate again after 0.85 to 0.95 of this time.
MAX_REAUTH_MS: Final = 2_000
TOKEN_LIFETIME_S: Final = 600
ITERATIONS: Final = 4_096
_SECURITY: Final = "org.apache.kafka.common.security"
_LOGIN_MODULES: Final = {
    "PLAIN": f"{_SECURITY}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_SECURITY}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule",
}


@pytest.fixture(scope="session")
def secured_kafka(
    kafka_jars: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredKafka]:
    """One node with the listeners of all security protocols, for the whole session."""
    folder = tmp_path_factory.mktemp("secured")
    with SecuredKafka(folder / "kafka", Certificates(folder)) as broker:
        asyncio.run(broker.set_password(PASSWORD))
        yield broker


def quoted(text: str) -> str:
    """Return a text in quotes, as an option of JAAS has it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def jaas(mechanism: str, username: str = USER, password: str = PASSWORD) -> str:
    """Return the value of sasl.jaas.config for a client."""
    options = f"username={quoted(username)} password={quoted(password)}"
    return f"{_LOGIN_MODULES[mechanism]} required {options};"


def unsecured_token(subject: str = USER) -> str:
    """Return a bearer token without a signature, which Kafka accepts in this configuration."""
    now = int(time.time())
    claims = {"sub": subject, "iat": now, "exp": now + TOKEN_LIFETIME_S}
    parts = (urlsafe_b64encode(json.dumps(part).encode()) for part in ({"alg": "none"}, claims))
    return ".".join(part.rstrip(b"=").decode() for part in parts) + "."


class SecuredKafka(Kafka):
    """A node with the listeners PLAINTEXT, SSL (which requires a client's certificate),
    SASL_PLAINTEXT and SASL_SSL. `addresses` has the address of each listener."""

    def __init__(self, directory: Path, certificates: Certificates) -> None:
        self.certificates = certificates
        self._ports = {name: reserve_port(self) for name in LISTENERS}
        self.addresses = {name: f"localhost:{port}" for name, port in self._ports.items()}
        super().__init__(directory, QUICK | QUIET | _authentication())

    def client_settings(self, listener: str, mechanism: str | None = None) -> dict[str, Any]:
        """Return the settings of a client for a listener. They are those of USER; `mechanism` is
        for a listener with SASL."""
        settings: dict[str, Any] = {"security_protocol": listener}
        if listener.endswith("SSL"):
            settings["ssl_truststore_type"] = "PEM"
            settings["ssl_truststore_location"] = str(self.certificates.authority_path)
        if listener == "SSL":
            user = self.certificates.client(USER)
            settings["ssl_keystore_type"] = "PEM"
            settings["ssl_keystore_key"] = user.key
            settings["ssl_keystore_certificate_chain"] = user.chain
        if mechanism is not None:
            settings["sasl_mechanism"] = mechanism
        if mechanism == "OAUTHBEARER":
            settings["sasl_oauthbearer_token"] = unsecured_token
        elif mechanism is not None:
            settings["sasl_jaas_config"] = jaas(mechanism)
        return settings

    def spawn(self) -> Any:
        self.directory.mkdir(parents=True, exist_ok=True)
        server = self.certificates.server
        (self.directory / "server.pem").write_text(server.pkcs8_key() + server.chain)
        return super().spawn()

    def _default_settings(self) -> dict[str, str]:
        settings = super()._default_settings()
        listeners = "".join(f",{name}://127.0.0.1:{port}" for name, port in self._ports.items())
        advertised = "".join(f",{name}://{address}" for name, address in self.addresses.items())
        names = ("PLAINTEXT", *LISTENERS)
        return settings | {
            "listeners": settings["listeners"] + listeners,
            "advertised.listeners": settings["advertised.listeners"] + advertised,
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in names)]
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / "server.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.authority_path),
            "listener.name.ssl.ssl.client.auth": "required",
        }

    async def set_password(self, password: str, username: str = USER) -> None:
        """Give a user of SCRAM a password, for both mechanisms."""
        connection = await Connection.open(("127.0.0.1", self.port), admin_config(self.address))
        # Kafka takes only one credential of a user in a request.
        for mechanism in ScramMechanism:
            upsertions = [_upsertion(mechanism, username, password)]
            response: AlterUserScramCredentialsResponse = await connection.start(
                AlterUserScramCredentialsRequest(upsertions=upsertions)
            )
            for row in response.results:
                check(row.error_code, row.error_message)
        connection.close()


def _upsertion(mechanism: ScramMechanism, username: str, password: str) -> ScramCredentialUpsertion:
    salt = os.urandom(16)
    return ScramCredentialUpsertion(
        name=username,
        mechanism=mechanism,
        iterations=ITERATIONS,
        salt=salt,
        salted_password=salted_password(mechanism, password, salt, ITERATIONS),
    )


def _authentication() -> dict[str, str]:
    """Return the settings of the SASL listeners."""
    # The broker's own options: its users of PLAIN, and its own token of OAUTHBEARER, which it does
    # not use. Tokens need no signature without sasl.oauthbearer.jwks.endpoint.url.
    options = {
        "PLAIN": f" user_{USER}={quoted(PASSWORD)}",
        "OAUTHBEARER": ' unsecuredLoginStringClaim_sub="broker"',
    }
    settings = {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connections.max.reauth.ms": str(MAX_REAUTH_MS),
    }
    for listener in SASL_LISTENERS:
        for mechanism, module in _LOGIN_MODULES.items():
            name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
            # A backslash has a meaning in a file of properties too.
            value = f"{module} required{options.get(mechanism, '')};".replace("\\", "\\\\")
            settings[name] = value
    return settings

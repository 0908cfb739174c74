"""Three brokers with TLS, users and access rules on all connections: between clients and brokers,
between brokers, and to an etcd with client certificates and a login."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from oncelog.testing.ports import reserve_port
from oncelog.testing.wire import Wire
from oncelog_client.core.security_settings import SecuritySettings
from oncelog_protocol.secret import Secret
from oncelog_protocol.security.login import SaslCredentials, sasl_client
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_server.settings.security import STANDARD_AUTHORIZER
from tests.cluster.reading import CALL_S
from tests.harness.broker import Oncelog, OncelogByAddress
from tests.harness.certificates import Certificates, Identity
from tests.harness.cluster import Cluster
from tests.harness.etcd import Etcd
from tests.security.logins import Login
from tests.security.secured_wire import SecuredWire, context_of

# The listener of clients, and that between brokers.
CLIENTS, BROKERS = "CLIENTS", "BROKERS"
MECHANISM: Final = SaslMechanism.SCRAM_SHA_512
# ADMIN is the only super user. BROKER may only act as a broker, and CLIENT may do everything with
# topics, groups and transactional ids.
ADMIN, BROKER, CLIENT = "admin", "broker", "client"
PASSWORDS: Final = {name: f"canary-of-{name}" for name in (ADMIN, BROKER, CLIENT)}
ETCD_PASSWORD: Final = "canary-of-etcd"
RIGHTS: Final = (
    (BROKER, ResourceType.BROKER, "kafka-cluster", AclOperation.CLUSTER_ACTION),
    (CLIENT, ResourceType.TOPIC, "*", AclOperation.ALL),
    (CLIENT, ResourceType.GROUP, "*", AclOperation.ALL),
    (CLIENT, ResourceType.TRANSACTIONAL_ID, "*", AclOperation.ALL),
)


def secured_etcd(folder: Path, certificates: Certificates, members: int = 1) -> Etcd:
    """Return an etcd, which is not started yet."""
    return Etcd(
        folder,
        members,
        certificates=certificates,
        demands_certificates=True,
        password=ETCD_PASSWORD,
    )


class SecuredBroker(OncelogByAddress):
    """`port` is the port of CLIENTS. The certificate is in `keystore`, which a test may replace."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str], certificates: Certificates
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.keystore = directory / "broker.pem"
        users = directory / "first-users"
        users.touch(0o600)
        users.write_text("".join(f"{name}:{MECHANISM}:{of}\n" for name, of in PASSWORDS.items()))
        super().__init__(
            directory,
            {**_settings(self.keystore, certificates), **settings},
            {"ONCELOG_BOOTSTRAP_USER_FILE": str(users)},
        )
        self.broker_port = reserve_port(self)
        self.show(certificates.server)

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"

    def show(self, identity: Identity) -> None:
        """Replace the certificate at once. A broker that runs finds it at a reload."""
        new = self.keystore.with_suffix(".new")
        new.touch(0o600)
        new.write_text(identity.pem)
        os.replace(new, self.keystore)

    def _address_arguments(self) -> list[str]:
        ports = {CLIENTS: self.port, BROKERS: self.broker_port}
        listeners = ",".join(f"{name}://{self.host}:{port}" for name, port in ports.items())
        advertised = f"{CLIENTS}://{self.address},{BROKERS}://{self.host}:{self.broker_port}"
        return ["--set", f"listeners={listeners}", "--set", f"advertised.listeners={advertised}"]


def _settings(keystore: Path, certificates: Certificates) -> dict[str, str]:
    login = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{BROKER}" password="{PASSWORDS[BROKER]}";'
    )
    return {
        "listener.security.protocol.map": f"{CLIENTS}:SASL_SSL,{BROKERS}:SASL_SSL",
        "inter.broker.listener.name": BROKERS,
        "sasl.enabled.mechanisms": MECHANISM,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        f"listener.name.{BROKERS.lower()}.ssl.client.auth": "required",
        # Links authenticate again and again.
        f"listener.name.{BROKERS.lower()}.connections.max.reauth.ms": "5000",
        f"listener.name.{BROKERS.lower()}.{MECHANISM.lower()}.sasl.jaas.config": login,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority_path),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:{ADMIN}",
        "oncelog.etcd.username": "root",
        "oncelog.etcd.password": ETCD_PASSWORD,
        "oncelog.etcd.ssl.keystore.type": "PEM",
        "oncelog.etcd.ssl.keystore.location": str(certificates.server.pem_path),
        "oncelog.etcd.ssl.truststore.type": "PEM",
        "oncelog.etcd.ssl.truststore.location": str(certificates.authority_path),
    }


class SecuredCluster(Cluster):
    """The users and their rights exist when the cluster has started. Clients are CLIENT."""

    brokers: dict[int, SecuredBroker]  # type: ignore[assignment]

    def __init__(
        self,
        directory: Path,
        etcd: Etcd,
        certificates: Certificates,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.certificates = certificates
        self._directory = directory
        super().__init__(directory, etcd, settings=settings)
        self.login = directory / "login.json"
        self.login.touch(0o600)
        self.login.write_text(json.dumps(self.security))

    def new_broker(self, directory: Path, settings: Mapping[str, str]) -> SecuredBroker:
        return SecuredBroker(directory, settings, self.certificates)

    def start(self) -> None:
        super().start()
        admin = AdminClient(self.librdkafka_of(ADMIN))
        for right in admin.create_acls([_rule(*right) for right in RIGHTS]).values():
            right.result(CALL_S)

    def login_of(self, user: str) -> Login:
        return Login(
            "SASL_SSL",
            self._directory,
            authority=self.certificates.authority_path,
            mechanism=MECHANISM,
            user=user,
            secret=PASSWORDS[user],
        )

    def librdkafka_of(self, user: str) -> dict[str, Any]:
        """Return the settings of librdkafka's clients of a user."""
        return {"bootstrap.servers": self.address, "log_level": 0, **self.login_of(user).librdkafka}

    @property
    def librdkafka(self) -> dict[str, Any]:
        return self.librdkafka_of(CLIENT)

    @property
    def security(self) -> SecuritySettings:
        """Return the settings of our own clients."""
        return self.login_of(CLIENT).ours

    def connect(self, broker: Oncelog, user: str = CLIENT, port: int = 0) -> Wire:
        """Return a connection of a user for raw requests, by default to the listener CLIENTS."""
        context = context_of(self.certificates, self.certificates.server)
        wire = SecuredWire(f"localhost:{port or broker.port}", context)
        credentials = SaslCredentials(MECHANISM, user, Secret(PASSWORDS[user]))
        try:
            wire.authenticate(sasl_client(credentials, os.urandom))
        except BaseException:
            wire.socket.close()
            raise
        return wire


def _rule(user: str, kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        kind,
        name,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )

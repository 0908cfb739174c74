"""Brokers of compose files with TLS and SASL, their folder /etc/kafka/secrets, and the settings of
librdkafka and of Kafka's tools that log in to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from tests.harness.certificates import PASSWORD, Certificates

USER, USER_PASSWORD = "alice", "alice-secret"
_NODE: Final = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
    "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
}
_STORES: Final = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "kafka01.keystore.jks",
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "kafka_keystore_creds",
    "KAFKA_SSL_KEY_CREDENTIALS": "kafka_ssl_key_creds",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "kafka.truststore.jks",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "kafka_truststore_creds",
    "KAFKA_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM": "",
}
_LOGIN: Final = f"""\
KafkaServer {{
   org.apache.kafka.common.security.plain.PlainLoginModule required
   username="admin"
   password="admin-secret"
   user_admin="admin-secret"
   user_{USER}="{USER_PASSWORD}";
}};
"""


class SecuredService(NamedTuple):
    """A broker. `port` is that of the listener for clients outside of the container. The listener
    demands a certificate if `is_mutual`, else a user."""

    name: str
    environment: dict[str, str]
    port: int
    is_mutual: bool


SECURED: Final = (
    SecuredService(
        "apache: Kafka's own example with TLS",
        {
            **_NODE,
            **_STORES,
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "SSL:SSL,CONTROLLER:PLAINTEXT,SSL-INTERNAL:SSL",
            "KAFKA_ADVERTISED_LISTENERS": "SSL://localhost:9093,SSL-INTERNAL://broker:19093",
            "KAFKA_LISTENERS": "SSL://:9093,CONTROLLER://:29093,SSL-INTERNAL://:19093",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "SSL-INTERNAL",
            "KAFKA_SSL_CLIENT_AUTH": "required",
        },
        port=9093,
        is_mutual=True,
    ),
    # Kafka's own example, with the variables that the script `configure` of its image checks for
    # SASL.
    SecuredService(
        "apache: SASL_SSL with a JAAS file",
        {
            **_NODE,
            **_STORES,
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
                "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT,PLAINTEXT-INTERNAL:PLAINTEXT"
            ),
            "KAFKA_ADVERTISED_LISTENERS": (
                "SASL_SSL://localhost:9094,PLAINTEXT-INTERNAL://broker:19092"
            ),
            "KAFKA_LISTENERS": "SASL_SSL://:9094,CONTROLLER://:29093,PLAINTEXT-INTERNAL://:19092",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT-INTERNAL",
            "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
            "KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL": "PLAIN",
            "KAFKA_OPTS": (
                "-Djava.security.auth.login.config=/etc/kafka/secrets/kafka_server_jaas.conf"
            ),
        },
        port=9094,
        is_mutual=False,
    ),
    # As in the examples of Confluent's images: the listeners follow from the advertised ones.
    SecuredService(
        "confluent: SASL_SSL, advertised listeners only",
        {
            **_STORES,
            "KAFKA_BROKER_ID": "1",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_ADVERTISED_LISTENERS": "SASL_SSL://localhost:19094",
            "KAFKA_SECURITY_INTER_BROKER_PROTOCOL": "SASL_SSL",
            "KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL": "PLAIN",
            "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
            "KAFKA_LOG4J_ROOT_LOGLEVEL": "DEBUG",
            "KAFKA_OPTS": (
                "-Djava.security.auth.login.config=/etc/kafka/secrets/kafka_server_jaas.conf "
                "-Dsun.security.krb5.debug=true"
            ),
        },
        port=19094,
        is_mutual=False,
    ),
)


def write_secrets(folder: Path, certificates: Certificates) -> None:
    """Write the files of /etc/kafka/secrets. As in a volume, other users may read them. The stores
    are PKCS12 with the names of JKS, as keytool makes them."""
    authority = x509.load_pem_x509_certificate(certificates.authority_pem.encode())
    trust = pkcs12.serialize_key_and_certificates(
        None,
        None,
        None,
        [authority],
        serialization.BestAvailableEncryption(PASSWORD.encode()),
    )
    contents = {
        "kafka01.keystore.jks": certificates.server.pkcs12_path.read_bytes(),
        "kafka.truststore.jks": trust,
        "kafka_keystore_creds": f"{PASSWORD}\n".encode(),
        "kafka_ssl_key_creds": f"{PASSWORD}\n".encode(),
        "kafka_truststore_creds": f"{PASSWORD}\n".encode(),
        "kafka_server_jaas.conf": _LOGIN.encode(),
    }
    for name, data in contents.items():
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o644)


def client_settings(service: SecuredService, certificates: Certificates) -> dict[str, str]:
    """Return the settings of librdkafka for a client of the service."""
    trust = {"ssl.ca.pem": certificates.authority_pem}
    if service.is_mutual:
        identity = certificates.client("compose")
        return trust | {
            "security.protocol": "SSL",
            "ssl.certificate.pem": identity.chain,
            "ssl.key.pem": identity.key,
        }
    return trust | {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": USER_PASSWORD,
    }


def write_tool_properties(
    service: SecuredService, certificates: Certificates, folder: Path, seen_as: str = ""
) -> Path:
    """Write the file of Kafka's `--command-config` and its stores into a folder. Return its path.
    The tool sees the folder as `seen_as`, by default under its own path."""
    here = seen_as or str(folder)
    authority = folder / "authority.pem"
    authority.write_text(certificates.authority_pem)
    lines = ["ssl.truststore.type=PEM", f"ssl.truststore.location={here}/{authority.name}"]
    readable = [authority]
    if service.is_mutual:
        store = folder / "client.p12"
        store.write_bytes(certificates.client("compose").pkcs12_path.read_bytes())
        readable.append(store)
        lines += [
            "security.protocol=SSL",
            "ssl.keystore.type=PKCS12",
            f"ssl.keystore.location={here}/{store.name}",
            f"ssl.keystore.password={PASSWORD}",
            f"ssl.key.password={PASSWORD}",
        ]
    else:
        lines += [
            "security.protocol=SASL_SSL",
            "sasl.mechanism=PLAIN",
            "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{USER}" password="{USER_PASSWORD}";',
        ]
    properties = folder / "client.properties"
    properties.write_text("\n".join(lines) + "\n")
    for path in (*readable, properties):
        path.chmod(0o644)
    return properties


def compose_text(service: SecuredService, image: str, container: str, secrets: Path) -> str:
    """Return a compose file for the service. It is JSON, which is also YAML."""
    broker = {
        "image": image,
        "hostname": "broker",
        "container_name": container,
        "ports": [f"127.0.0.1:{service.port}:{service.port}"],
        "volumes": [f"{secrets}:/etc/kafka/secrets:ro"],
        "environment": service.environment,
    }
    return json.dumps({"services": {"broker": broker}}, indent=2)

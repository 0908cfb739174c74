"""The secrets in settings, files and requests appear in nothing that a broker prints or stores."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import javaproperties
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from oncelog.testing.faults import Faults
from oncelog.testing.ports import reserve_port
from oncelog_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from oncelog_protocol.secret import Secret
from oncelog_protocol.security.login import SaslCredentials, sasl_client
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.oauthbearer_client import OAuthBearerClient
from oncelog_protocol.security.sasl_client import AuthenticationFailed, SaslClient
from tests.harness.bearer_tokens import AUDIENCE, ISSUER, Issuer
from tests.harness.broker import Oncelog
from tests.harness.certificates import Certificates, Identity
from tests.harness.scraping import metrics_url
from tests.harness.waiting import wait_until
from tests.security.conftest import add_scram_user
from tests.security.secured_wire import SecuredWire, context_of

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
    pytest.mark.usefixtures("own_interpreter"),
]

LISTENERS: Final = ("PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT")
FLAGS: Final = ("--debug", "--allow-faults")
# The time after which the broker logs a refusal of the same client again.
REPEAT_MS: Final = 60_000
SECURITY: Final = "org.apache.kafka.common.security"
# The refused clients of the test: three users, twice, with two mechanisms, and a token.
REFUSALS: Final = 13
# A secret of every kind. Two more, parts of keys in PEM, are made with the certificates.
CANARIES: Final = {
    name: f"canary-{number:02}-{name}"
    for number, name in enumerate(
        (
            "keystore",
            "truststore",
            "key",
            "plain-alice",
            "plain-bob",
            "scram-module",
            "default-module",
            "client-secret",
            "passphrase",
            "first-user",
            "added-user",
            "wrong",
        )
    )
}


class FromFile(Oncelog):
    """A broker with all its settings in a file. `ports` has the ports of its listeners."""

    def __init__(self, directory: Path, settings: Mapping[str, str], users: Path) -> None:
        self.ports = {name: reserve_port(self) for name in LISTENERS}
        addresses = (f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        whole = {**settings, "listeners": ",".join(addresses)}
        file = directory / "server.properties"
        file.write_text(javaproperties.dumps(whole))
        environment = {"ONCELOG_BOOTSTRAP_USER_FILE": str(users)}
        super().__init__(directory, {}, environment, ["--config", str(file), *FLAGS])
        self.faults = Faults(self.data)

    def address_of(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    def _address_arguments(self) -> list[str]:
        return []


def pkcs12_file(path: Path, identity: Identity, password: str) -> Path:
    certificates = x509.load_pem_x509_certificates(identity.chain.encode())
    key = serialization.load_pem_private_key(identity.key.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    encryption = serialization.BestAvailableEncryption(password.encode())
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(b"broker", key, certificates[0], None, encryption)
    )
    return path


def trust_file(path: Path, certificates: Certificates, password: str) -> Path:
    authority = x509.load_pem_x509_certificate(certificates.authority_pem.encode())
    entry = pkcs12.PKCS12Certificate(authority, b"authority")
    encryption = serialization.BestAvailableEncryption(password.encode())
    path.write_bytes(pkcs12.serialize_java_truststore([entry], encryption))
    return path


@pytest.fixture(scope="module")
def secrets(certificates: Certificates) -> dict[str, str]:
    """The canaries, and lines of the keys."""
    encrypted = certificates.server.encrypted_key(CANARIES["key"])
    return CANARIES | {
        "encrypted PEM": encrypted.splitlines()[1],
        "PEM": certificates.server.pkcs8_key().splitlines()[1],
    }


@pytest.fixture
def broker(tmp_path: Path, certificates: Certificates) -> Iterator[FromFile]:
    identity, issuer = certificates.server, Issuer()
    (tmp_path / "jwks.json").write_bytes(issuer.jwks("p256"))
    users = tmp_path / "users"
    users.write_text(f"first:SCRAM-SHA-256:{CANARIES['first-user']}\n")
    users.chmod(0o600)
    plain = (
        f'{SECURITY}.plain.PlainLoginModule required user_alice="{CANARIES["plain-alice"]}" '
        f'user_bob="{CANARIES["plain-bob"]}";'
    )
    scram = f'{SECURITY}.scram.ScramLoginModule required username="x" password='
    keystore = pkcs12_file(tmp_path / "keystore", identity, CANARIES["keystore"])
    truststore = trust_file(tmp_path / "truststore", certificates, CANARIES["truststore"])
    settings = {
        "listener.name.ssl.ssl.keystore.location": str(keystore),
        "listener.name.ssl.ssl.keystore.password": CANARIES["keystore"],
        "listener.name.ssl.ssl.key.password": CANARIES["keystore"],
        "listener.name.ssl.ssl.truststore.location": str(truststore),
        "listener.name.ssl.ssl.truststore.password": CANARIES["truststore"],
        "listener.name.sasl_ssl.ssl.keystore.type": "PEM",
        "listener.name.sasl_ssl.ssl.keystore.key": identity.encrypted_key(CANARIES["key"]),
        "listener.name.sasl_ssl.ssl.keystore.certificate.chain": identity.chain,
        "listener.name.sasl_ssl.ssl.key.password": CANARIES["key"],
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain,
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain,
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": (
            f'{scram}"{CANARIES["scram-module"]}";'
        ),
        "sasl.jaas.config": f'{scram}"{CANARIES["default-module"]}";',
        "sasl.oauthbearer.client.credentials.client.secret": CANARIES["client-secret"],
        "sasl.oauthbearer.assertion.private.key.passphrase": CANARIES["passphrase"],
        "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "jwks.json").as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "oncelog.metrics.port": "0",
    }
    with FromFile(tmp_path, settings, users) as broker:
        yield broker


def found(text: str, secrets: Mapping[str, str]) -> list[str]:
    return [name for name, secret in secrets.items() if secret in text]


def refused(broker: FromFile, listener: str, client: SaslClient, certificates: Certificates) -> str:
    """Return the message that a refused client gets. The broker logs each refusal."""
    broker.faults.ask("advance", ms=REPEAT_MS)
    context = context_of(certificates) if listener.endswith("SSL") else None
    with (
        SecuredWire(broker.address_of(listener), context) as wire,
        pytest.raises(AuthenticationFailed) as failure,
    ):
        wire.authenticate(client)
    return str(failure.value)


def password_client(mechanism: SaslMechanism, user: str, password: str) -> SaslClient:
    return sasl_client(SaslCredentials(mechanism, user, Secret(password)), os.urandom)


def test_a_running_broker_shows_no_secret(
    broker: FromFile, secrets: dict[str, str], certificates: Certificates
) -> None:
    """Log, output, responses, metrics, data, and the process list have none of the secrets, after
    logins, failures, requests for all settings, and reloads of certificates."""
    shown = [metrics_page(broker), process_list(broker)]
    plain, scram = SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256
    with SecuredWire(broker.address_of("SASL_SSL"), context_of(certificates)) as wire:
        wire.authenticate(password_client(plain, "alice", CANARIES["plain-alice"]))
        shown.append(all_settings(wire))
    with SecuredWire(broker.address_of("SASL_PLAINTEXT")) as wire:
        wire.authenticate(password_client(scram, "first", CANARIES["first-user"]))
    add_scram_user(broker.address_of("PLAINTEXT"), "added", CANARIES["added-user"])
    for mechanism in (plain, scram):
        for user in ("alice", "added", "mallory"):
            client = password_client(mechanism, user, CANARIES["wrong"])
            shown.append(refused(broker, "SASL_SSL", client, certificates))
            shown.append(refused(broker, "SASL_PLAINTEXT", client_again(client), certificates))
    token = Issuer().token("rsa")
    client = OAuthBearerClient(Secret(token))
    shown.append(refused(broker, "SASL_SSL", client, certificates))
    shown += reloads(broker)
    shown.append(metrics_page(broker))
    assert broker.stop() == 0
    shown += [broker.log.read_text(), broker.output.read_text(), *contents(broker.data)]
    assert found("\n".join(shown), secrets | {"token": token}) == []
    assert broker.log.read_text().count('"authentication failed"') == REFUSALS


def client_again(client: SaslClient) -> SaslClient:
    """Return a client with a password that no user has."""
    return password_client(client.mechanism, "bob", CANARIES["wrong"])


def metrics_page(broker: FromFile) -> str:
    with urllib.request.urlopen(f"{metrics_url(broker)}/metrics", timeout=60) as response:
        page: str = response.read().decode()
    return page


def process_list(broker: FromFile) -> str:
    """Return the command lines of all processes."""
    paths = Path("/proc").glob("[0-9]*/cmdline")
    lines = [path.read_text(errors="replace") for path in paths if path.exists()]
    assert any(str(broker.directory) in line for line in lines)
    return "\n".join(lines)


def all_settings(wire: SecuredWire) -> str:
    """Return DescribeConfigs of the broker, with synonyms and documentation. Secret settings have
    no value."""
    resource = DescribeConfigsResource(resource_type=4, resource_name="1")
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )
    (result,) = wire.call(request, 4).results
    settings = {config.name: config for config in result.configs}
    for name in ("sasl.jaas.config", "sasl.oauthbearer.client.credentials.client.secret"):
        assert settings[name].is_sensitive
        assert settings[name].value is None
    return repr(result)


def reloads(broker: FromFile) -> list[str]:
    """Reload certificates, then a store that is damaged. Return librdkafka's view of the broker's
    settings after that."""
    reload_certificates(broker, "certificates reloaded")
    (broker.directory / "keystore").write_bytes(b"0" * 100)
    reload_certificates(broker, "certificates not reloaded")
    admin = AdminClient({"bootstrap.servers": broker.address_of("PLAINTEXT")})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    return [f"{name}={entry.value}" for name, entry in future.result(20).items()]


def reload_certificates(broker: FromFile, event: str) -> None:
    os.kill(broker.pid, signal.SIGHUP)
    wait_until(lambda: f'"{event}"' in broker.log.read_text(), event)


def contents(folder: Path) -> list[str]:
    """Return all files of a folder as text."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.name.endswith(("sqlite", "db")) or "metadata" in path.name for path in files)
    return [path.read_bytes().decode("latin-1") for path in files]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ssl.keystore.pasword", "{}"),
        ("ssl.keystore.password", "{}"),
        ("listener.name.ssl.ssl.key.pasword", "{}"),
        ("listener.name.sasl_ssl.plain.sasl.jaas.config", 'PlainLoginModule required user_a="{}'),
        ("listener.name.sasl_ssl.plain.sasl.jaas.config", 'Plain required user_a="{}";'),
        ("sasl.jaas.configuration", 'PlainLoginModule required user_a="{}";'),
        ("delegation.token.secret.key", "{}"),
        ("ssl.keystore.key", "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----"),
    ],
)
@pytest.mark.parametrize("source", ["file", "environment", "argument"])
def test_a_refused_start_shows_no_secret(name: str, text: str, source: str, tmp_path: Path) -> None:
    """A misspelled or wrong secret is not in the reason of the refusal, whatever its source."""
    canary = "canary-of-a-refused-start"
    value = text.format(canary)
    command = [sys.executable, "-m", "oncelog_server", "serve", "--data", str(tmp_path / "data")]
    command += ["--set", "listeners=SASL_SSL://127.0.0.1:0,SSL://127.0.0.1:0"]
    command += ["--set", "sasl.enabled.mechanisms=PLAIN"]
    environment = {key: value for key, value in os.environ.items() if "KAFKA" not in key}
    if source == "file":
        (tmp_path / "file").write_text(javaproperties.dumps({name: value}))
        command += ["--config", str(tmp_path / "file")]
    elif source == "environment":
        variable = name.replace("_", "__").replace("-", "___").replace(".", "_").upper()
        environment[f"KAFKA_{variable}"] = value
    else:
        command += ["--set", f"{name}={value}"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode in (1, 2), "settings, or stores, that cannot be used"
    assert done.stderr
    assert canary not in done.stdout + done.stderr

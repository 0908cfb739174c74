"""The commands, files and programs of the page about security, in their order and alone, set up a
broker with TLS, users and rules."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from oncelog_server.config import load_settings
from tests.docs.blocks import blocks_of, run_python, run_shell
from tests.harness.kafka.tools import tool_command
from tests.harness.waiting import wait_until

PAGE: Final = "security"
PORT: Final = "9094"
ADMIN: Final = "--command-config secrets/admin.properties"
# The prefix of one of Kafka's names. The name alone is Kafka's own tool here.
OURS: Final = "python -m oncelog_client.kafka_tools "
FOLDER: Final = "/etc/oncelog/secrets"


@pytest.fixture
def tools(kafka_jars: str, tmp_path: Path) -> Path:
    """A folder with Kafka's own console producer under the name of its distribution."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "kafka-console-producer.sh"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(tool_command("console-producer"))} "$@"\n')
    script.chmod(0o755)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of the page's files. The broker that the page starts in it is killed."""
    path = tmp_path / "page"
    path.mkdir()
    yield path
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int((path / "broker.pid").read_text()), signal.SIGKILL)


def error_of_a_record(folder: Path, address: str, topic: str) -> str | None:
    """Return the name of the error with which a record of alice fails, None if it does not."""
    settings = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(folder / "secrets/authority.pem"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": (folder / "secrets/alice.password").read_text().strip(),
    }
    producer, errors = Producer(settings), []
    producer.produce(topic, b"order", on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    (error,) = errors
    return None if error is None else str(error.name())


def test_the_page_leads_to_a_broker_with_two_users(
    folder: Path, port: int, request: pytest.FixtureRequest
) -> None:
    """The part with Kafka's own tool comes last, because it needs Java."""
    address = f"localhost:{port}"
    setup, later = blocks_of(PAGE, "sh")[:4], blocks_of(PAGE, "sh")[4:]
    certificates, users, start, rules = setup
    denial, ours, kafka_name, quotas, another_user, another_certificate = later
    settings, _ = blocks_of(PAGE, "properties")
    (program,) = blocks_of(PAGE, "python")
    program = program._replace(text=program.text.replace(PORT, str(port)))

    def run(text: str) -> str:
        return run_shell(text.replace(PORT, str(port)), address, folder)

    run(certificates.text)
    run(users.text)
    (folder / "server.properties").write_text(settings.text.replace(PORT, str(port)))
    assert run(start.text).endswith(f"a broker responds at {address}\n")
    log = folder / "broker.log"
    assert "other users may read" not in log.read_text()
    run(rules.text)
    run(denial.text)
    assert run(ours.text) == ours.printed
    assert run_python(program, address, folder) == program.printed
    assert error_of_a_record(folder, address, "orders") is None
    assert "access denied" not in log.read_text()
    assert error_of_a_record(folder, address, "bills") == "TOPIC_AUTHORIZATION_FAILED"
    wait_until(lambda: "access denied" in log.read_text(), "the broker logs the denied request")
    limits = run(quotas.text)
    assert "producer_byte_rate" in limits
    run(another_user.text)
    changed = "--command-config secrets/bob.properties"
    run(f"oncelog acls add --allow User:bob --operation read --topic orders {ADMIN}")
    assert "orders" in run(f"oncelog topic list {changed}")
    run(another_user.text.replace("user=bob", "user=alice"))
    run(another_certificate.text)
    wait_until(lambda: "certificates reloaded" in log.read_text(), "the broker reloads")
    assert run_python(program, address, folder) == program.printed
    for password in folder.glob("secrets/*.password"):
        assert password.read_text().strip() not in log.read_text()
    tools = request.getfixturevalue("tools")
    run(kafka_name.text)
    run(f"PATH={tools}:$PATH\n{kafka_name.text.replace(OURS, '')}")
    read_all = ours.text[ours.text.index("oncelog consume") :].replace(
        "--group reports --from-beginning --max-messages 1", "--from-beginning -e"
    )
    assert sorted(run(read_all).splitlines()) == sorted(
        ["first order", "second order", "second order", "third order", "third order", "order"]
    )


def test_passwords_come_from_the_providers_of_the_page(tmp_path: Path) -> None:
    _, settings = blocks_of(PAGE, "properties")
    (tmp_path / "passwords.properties").write_text("keystore=of the store")
    file = tmp_path / "server.properties"
    file.write_text(settings.text.replace(FOLDER, str(tmp_path)))
    loaded = load_settings(config_file=file, environment={"BROKER_KEY_PASSWORD": "of the key"})
    secrets = loaded.settings.ssl_keystore_password, loaded.settings.ssl_key_password
    assert [secret and secret.reveal() for secret in secrets] == ["of the store", "of the key"]

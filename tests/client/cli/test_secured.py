"""Commands and Kafka's tools with a `--command-config` file for TLS and SASL, against Apache Kafka.
The file is the same for Kafka's own tool and for ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.harness.kafka.compared import printed, run_ours
from tests.harness.kafka.secured import SecuredKafka, jaas
from tests.harness.kafka.tools import run_tool

CANARY: Final = "C4nary-wrong-password"
MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


def _file(folder: Path, broker: SecuredKafka, listener: str, **settings: str) -> Path:
    """Return a file of client settings with the names of Kafka, as Java writes its values."""
    lines = {"security.protocol": listener, **settings}
    if listener.endswith("SSL"):
        lines["ssl.truststore.type"] = "PEM"
        lines["ssl.truststore.location"] = str(broker.certificates.authority_path)
    path = folder / "client.properties"
    text = "".join(f"{name.replace('__', '.')}={value}\n" for name, value in lines.items())
    path.write_text(text)
    return path


def _scram(**login: str) -> dict[str, str]:
    escaped = jaas("SCRAM-SHA-256", **login).replace("\\", "\\\\")
    # On several lines, as in Kafka's documentation.
    config = escaped.replace(" username", " \\\n    username").replace(
        " password", " \\\n  password"
    )
    return {"sasl__mechanism": "SCRAM-SHA-256", "sasl__jaas__config": config}


def _oncelog(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "oncelog_client.cli", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_command_uses_the_file_of_kafkas_tools(
    secured_kafka: SecuredKafka, tmp_path: Path, listener: str, name: str
) -> None:
    path = _file(tmp_path, secured_kafka, listener, **_scram())
    server = ("--bootstrap-server", secured_kafka.addresses[listener])
    done = _oncelog("topic", "create", name, *server, "--command-config", str(path))
    assert done.returncode == 0, done.stderr
    theirs = run_tool("topics", *server, "--list", "--command-config", str(path))
    ours = run_ours("kafka-topics", *server, "--list", "--command-config", str(path))
    assert name in ours.lines
    assert ours.lines == theirs.lines


def test_the_console_tools_use_the_file_too(
    secured_kafka: SecuredKafka, tmp_path: Path, name: str
) -> None:
    """The password has a quotation mark, a semicolon and a backslash."""
    path = str(_file(tmp_path, secured_kafka, "SASL_SSL", **_scram()))
    where = ("--bootstrap-server", secured_kafka.addresses["SASL_SSL"], "--topic", name)
    wrote = run_ours("kafka-console-producer", *where, "--command-config", path, input="one\n")
    assert wrote.returncode == 0, wrote.stderr
    read = ("--from-beginning", "--max-messages", "1", "--command-config", path)
    assert run_ours("kafka-console-consumer", *where, *read).lines == ["one"]


def test_a_wrong_password_ends_a_command_at_once(
    secured_kafka: SecuredKafka, tmp_path: Path
) -> None:
    path = _file(tmp_path, secured_kafka, "SASL_SSL", **_scram(password=CANARY))
    where = ("--bootstrap-server", secured_kafka.addresses["SASL_SSL"])
    done = _oncelog("topic", "list", *where, "--command-config", str(path))
    assert done.returncode == 1
    assert "refuses the authentication of this client (Authentication failed" in done.stderr
    assert CANARY not in done.stdout + done.stderr


def test_our_tool_fails_at_a_wrong_password_as_kafkas_tool_does(
    secured_kafka: SecuredKafka, tmp_path: Path
) -> None:
    path = _file(tmp_path, secured_kafka, "SASL_PLAINTEXT", **_scram(password=CANARY))
    address = secured_kafka.addresses["SASL_PLAINTEXT"]
    words = ("--bootstrap-server", address, "--list", "--command-config", str(path))
    results = run_tool("topics", *words, check=False), run_ours("kafka-topics", *words)
    theirs, ours = (printed(result, address) for result in results)
    # Kafka's log lines have the name of a thread. This name has blanks, so `printed` does not
    # recognize the lines as a log.
    lines = [line for line in theirs.out if "kafka-admin-client-thread" not in line]
    assert ours == theirs._replace(out=lines)
    assert ours.status == 1
    assert CANARY not in str(results)


def test_a_plain_command_at_a_listener_with_tls_gets_advice(secured_kafka: SecuredKafka) -> None:
    done = _oncelog("topic", "list", "--bootstrap-server", secured_kafka.addresses["SASL_SSL"])
    assert done.returncode == 1
    assert ". Set security.protocol to SSL or SASL_SSL in a file" in done.stderr


def test_a_missing_file_is_named(secured_kafka: SecuredKafka, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SSL\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={tmp_path}/nowhere.pem\n"
    )
    where = ("--bootstrap-server", secured_kafka.addresses["SSL"])
    done = _oncelog("topic", "list", *where, "--command-config", str(path))
    assert done.returncode == 2
    assert f"ssl.truststore.location: {tmp_path}/nowhere.pem cannot be read" in done.stderr


def test_an_untrusted_broker_is_refused_with_advice(
    secured_kafka: SecuredKafka, tmp_path: Path
) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SSL\n")
    where = ("--bootstrap-server", secured_kafka.addresses["SASL_SSL"])
    done = _oncelog("topic", "list", *where, "--command-config", str(path))
    assert done.returncode == 1
    assert "Name the certificates to trust by ssl.truststore.location" in done.stderr

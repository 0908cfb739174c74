"""The first users of a broker: from `storage format --add-scram`, under Kafka's name as well, and
from the file of ONCELOG_BOOTSTRAP_USER_FILE."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from oncelog_client.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialDeletion
from oncelog_client.sync import Admin
from oncelog_protocol.security.scram_credential import credential_of
from oncelog_protocol.security.scram_credential import salted_password as pbkdf2
from oncelog_server.startup.first_users import VARIABLE
from tests.harness.broker import Oncelog
from tests.server.migration.test_format_command import ALICE, BOB, credentials, format_

SHA_256, SHA_512 = ScramMechanism
CLUSTER = "4L6g3nShT-eMCtK--X86sw"


def described(address: str) -> dict[str, list[ScramCredentialInfo]]:
    with Admin(address) as admin:
        return admin.describe_user_scram_credentials()


def test_a_broker_starts_on_a_formatted_directory_and_has_its_users(tmp_path: Path) -> None:
    broker = Oncelog(tmp_path)
    result = format_("--data", str(broker.data), "-t", CLUSTER, "-S", ALICE, "-S", BOB)
    assert result.exit_code == 0, result.output
    assert "warning: --add-scram shows the password" in result.stderr
    with broker:
        assert described(broker.address) == {
            "alice": [ScramCredentialInfo(SHA_512, 4096)],
            "bob": [ScramCredentialInfo(SHA_256, 8192)],
        }
        with Admin(broker.address) as admin:
            assert admin.describe_cluster().cluster_id == CLUSTER
            assert admin.features["transaction.version"] == 2
        broker.stop()
        assert credentials(broker.data)[SHA_256, "bob"] == credential_of(
            SHA_256, b"salt", pbkdf2(SHA_256, "b-secret", b"salt", 8192), 8192
        )
        broker.start()
        assert set(described(broker.address)) == {"alice", "bob"}


def test_kafkas_name_of_the_tool_formats_with_users(tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text(f"process.roles=broker,controller\nlog.dirs={tmp_path / 'data'}\n")

    def tool(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "oncelog_client.kafka_tools", "kafka-storage.sh", "format"]
        common = ["--standalone", "-t", CLUSTER, "-c", str(settings)]
        return subprocess.run(
            [*command, *common, *arguments], capture_output=True, text=True, timeout=60, check=False
        )

    assert "changes nothing" in tool().stdout
    assert not (tmp_path / "data").exists()
    done = tool("--add-scram", ALICE)
    assert done.returncode == 0, done.stderr
    assert set(credentials(tmp_path / "data")) == {(SHA_512, "alice")}
    again = tool(f"--add-scram={BOB}")
    assert again.returncode == 1
    assert "is already formatted" in again.stderr


def with_file(tmp_path: Path, text: str) -> Oncelog:
    path = tmp_path / "first-users"
    path.write_text(text)
    path.chmod(0o600)
    return Oncelog(tmp_path / "broker", environment={VARIABLE: str(path)})


def test_the_users_of_the_file_are_created_while_there_is_no_credential(tmp_path: Path) -> None:
    text = "alice:SCRAM-SHA-512:a-secret\n\nalice:SCRAM-SHA-256:a:secret\nbob:SCRAM-SHA-256: b \n"
    broker = with_file(tmp_path, text)
    with broker:
        both = [ScramCredentialInfo(SHA_256), ScramCredentialInfo(SHA_512)]
        assert described(broker.address) == {"alice": both, "bob": [ScramCredentialInfo(SHA_256)]}
        with Admin(broker.address) as admin:
            admin.alter_user_scram_credentials([UserScramCredentialDeletion("bob", SHA_256)])
        broker.stop()
        stored = credentials(broker.data)[SHA_256, "alice"]
        salted = pbkdf2(SHA_256, "a:secret", stored.salt, 4096)
        assert stored == credential_of(SHA_256, stored.salt, salted, 4096)
        # The file is not read again, and may be deleted.
        (tmp_path / "first-users").unlink()
        broker.start()
        assert described(broker.address) == {"alice": both}
    log = broker.log.read_text()
    assert "first users created" in log
    assert "secret" not in log
    assert VARIABLE not in broker.said(), "the variable is no setting"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("alice:SCRAM-SHA-512:x\nbob:a-secret\n", "line 2: expected name:mechanism:password"),
        (":SCRAM-SHA-512:a-secret\n", "line 1: expected name:mechanism:password"),
        ("alice:SCRAM-SHA-512:\n", "line 1: expected name:mechanism:password"),
        ("alice:PLAIN:a-secret\n", "the mechanism must be SCRAM-SHA-256 or SCRAM-SHA-512"),
        ("alice:a-secret:x\n", "the mechanism must be SCRAM-SHA-256 or SCRAM-SHA-512"),
    ],
)
def test_an_invalid_file_refuses_the_start(tmp_path: Path, text: str, reason: str) -> None:
    broker = with_file(tmp_path, text)
    code = broker.spawn().wait(60)
    said = broker.said() + broker.log.read_text()
    assert code not in (0, None)
    assert reason in said
    assert "a-secret" not in said
    assert not broker.data.exists()
    (tmp_path / "first-users").write_text("alice:SCRAM-SHA-512:x\n")
    with broker:
        assert set(described(broker.address)) == {"alice"}


def test_a_missing_file_refuses_the_start_and_an_open_one_is_warned_about(tmp_path: Path) -> None:
    broker = with_file(tmp_path, "alice:SCRAM-SHA-512:x\n")
    path = tmp_path / "first-users"
    path.rename(tmp_path / "renamed")
    assert broker.spawn().wait(60) not in (0, None)
    assert f"{VARIABLE}: {path} cannot be read" in broker.said() + broker.log.read_text()
    (tmp_path / "renamed").rename(path)
    path.chmod(0o644)
    with broker:
        assert "other users may read the passwords" in broker.log.read_text()

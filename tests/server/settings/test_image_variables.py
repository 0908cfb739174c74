"""Variables of Kafka's images that name files: stores, passwords, and the JAAS file."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_protocol.security.jaas_syntax import JaasError
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_server.config import Settings, SettingsError, load_settings
from oncelog_server.settings.image_variables import login_file_path, with_secret_files
from oncelog_server.settings.listener_security import login_modules, tls_settings, users_of_plain
from oncelog_server.settings.listeners import listeners_of
from oncelog_server.settings.login_file import login_file, unreadable_login_file

CANARY = "xyzzy-canary-42"
# The variables of the compose file with TLS in Apache Kafka's repository.
KAFKAS_EXAMPLE = {
    "KAFKA_LISTENERS": "SSL://:9093",
    "KAFKA_SSL_KEYSTORE_FILENAME": "kafka01.keystore.jks",
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "kafka_keystore_creds",
    "KAFKA_SSL_KEY_CREDENTIALS": "kafka_ssl_key_creds",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "kafka.truststore.jks",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "kafka_truststore_creds",
    "KAFKA_SSL_CLIENT_AUTH": "required",
    "KAFKA_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM": "",
}
PASSWORDS = {
    "kafka_keystore_creds": "store password",
    "kafka_ssl_key_creds": "key password",
    "kafka_truststore_creds": "trust password",
}
PLAIN = {
    "KAFKA_LISTENERS": "SASL_PLAINTEXT://127.0.0.1:9092,IN://127.0.0.1:9093",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "SASL_PLAINTEXT:SASL_PLAINTEXT,IN:SASL_PLAINTEXT",
    "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
}
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LOGIN = f"""
// The users of the broker, and of one listener.
KafkaServer {{
   {MODULE} username="admin" password="admin-secret"
       user_admin="admin-secret" user_alice="{CANARY}";
}};
in.KafkaServer {{ {MODULE} user_bob="bobs"; }};
Client {{ org.example.zookeeper.DigestLoginModule required; }};
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, password in PASSWORDS.items():
        file = tmp_path / name
        file.write_text(f"{password}\n")
        file.chmod(0o600)
    return tmp_path


def loaded(folder: Path, environment: dict[str, str]) -> Settings:
    return load_settings(environment=environment, secrets_folder=str(folder)).settings


def problems(environment: dict[str, str], folder: Path) -> str:
    with pytest.raises(SettingsError) as refused:
        load_settings(environment=environment, secrets_folder=str(folder))
    return str(refused.value)


def with_login(path: str, options: str = "") -> dict[str, str]:
    return PLAIN | {
        "KAFKA_OPTS": f"-Xmx1g -Djava.security.auth.login.config={path} {options}".strip()
    }


def users(settings: Settings) -> dict[str, dict[str, str]]:
    return {
        listener.name: {
            name: password.reveal() for name, password in users_of_plain(settings, listener).items()
        }
        for listener in listeners_of(settings)
    }


def test_stores_and_passwords_come_from_the_files_of_kafkas_example(folder: Path) -> None:
    settings = loaded(folder, KAFKAS_EXAMPLE)
    (listener,) = listeners_of(settings)
    tls = tls_settings(settings, listener)
    assert tls.keystore_location == f"{folder}/kafka01.keystore.jks"
    assert tls.truststore_location == f"{folder}/kafka.truststore.jks"
    passwords = (tls.keystore_password, tls.key_password, tls.truststore_password)
    assert [secret and secret.reveal() for secret in passwords] == list(PASSWORDS.values())
    assert not load_settings(environment=KAFKAS_EXAMPLE, secrets_folder=str(folder)).warnings


def test_the_folder_is_that_of_kafkas_image() -> None:
    found = with_secret_files({"KAFKA_SSL_KEYSTORE_FILENAME": "a.jks"}, lambda path: path)
    assert found["KAFKA_SSL_KEYSTORE_LOCATION"] == "/etc/kafka/secrets/a.jks"
    password = with_secret_files({"KAFKA_SSL_KEY_CREDENTIALS": "a"}, lambda path: f" {path} \n\n")
    assert password["KAFKA_SSL_KEY_PASSWORD"] == " /etc/kafka/secrets/a "


def test_a_file_wins_over_a_variable_of_the_setting_as_in_kafkas_script() -> None:
    given = {"KAFKA_SSL_KEYSTORE_LOCATION": "/old", "KAFKA_SSL_KEYSTORE_FILENAME": "new"}
    found = with_secret_files(given, lambda path: path)
    assert found["KAFKA_SSL_KEYSTORE_LOCATION"] == "/etc/kafka/secrets/new"


def test_an_environment_without_these_variables_is_the_same() -> None:
    environment = {"KAFKA_SSL_KEYSTORE_FILENAME": "", "KAFKA_LISTENERS": "PLAINTEXT://:9092"}
    assert with_secret_files(environment, lambda path: path) is environment


def test_a_missing_password_file_is_named_with_its_variable(tmp_path: Path) -> None:
    said = problems(KAFKAS_EXAMPLE, tmp_path)
    assert "environment variable KAFKA_SSL_KEYSTORE_CREDENTIALS: " in said
    assert f"{tmp_path}/kafka_keystore_creds cannot be read: No such file or directory" in said


def test_a_password_file_that_is_no_text_is_refused(folder: Path) -> None:
    (folder / "kafka_keystore_creds").write_bytes(b"\xff\xfe")
    assert "kafka_keystore_creds is too large, or not text" in problems(KAFKAS_EXAMPLE, folder)


@pytest.mark.parametrize("name", ["kafka_keystore_creds", "kafka01.keystore.jks"])
@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_start_warns_of_a_file_that_others_may_read(folder: Path, name: str, mode: int) -> None:
    path = folder / name
    path.touch()
    path.chmod(mode)
    said = load_settings(environment=KAFKAS_EXAMPLE, secrets_folder=str(folder)).warnings
    assert said == (f"other users may read {path}, which has a key or passwords: chmod 600 {path}",)


def test_a_trust_store_may_be_read_by_others(folder: Path) -> None:
    (folder / "kafka.truststore.jks").touch(0o644)
    assert not load_settings(environment=KAFKAS_EXAMPLE, secrets_folder=str(folder)).warnings


def test_the_users_of_plain_come_from_the_login_file(tmp_path: Path) -> None:
    file = tmp_path / "kafka_server_jaas.conf"
    file.write_text(LOGIN)
    settings = loaded(tmp_path, with_login(str(file)))
    assert users(settings) == {
        "SASL_PLAINTEXT": {"admin": "admin-secret", "alice": CANARY},
        "IN": {"bob": "bobs"},
    }
    assert CANARY not in repr(settings)


def test_a_link_logs_in_as_the_user_of_the_login_file(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(LOGIN)
    settings = loaded(tmp_path, with_login(str(file)))
    listener = listeners_of(settings)[0]
    (module,) = login_modules(settings, listener, SaslMechanism.PLAIN)
    assert module.options["username"].reveal() == "admin"


def test_the_setting_of_a_listener_wins_over_the_login_file(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(LOGIN)
    own = {"KAFKA_LISTENER_NAME_IN_PLAIN_SASL_JAAS_CONFIG": f'{MODULE} user_carol="c";'}
    assert users(loaded(tmp_path, with_login(str(file)) | own))["IN"] == {"carol": "c"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "cannot be read: No such file or directory"),
        ("KafkaClient { " + MODULE + "; };", "has no context 'in.KafkaServer' or 'KafkaServer'"),
        ("KafkaServer { " + MODULE + f' user_a="{CANARY}" }};', "jaas.conf: line 1"),
        (
            "KafkaServer { org.apache.kafka.common.security.scram.ScramLoginModule required; };",
            "has no PlainLoginModule for listener IN",
        ),
        (
            "KafkaServer { com.sun.security.auth.module.Krb5LoginModule required; };",
            "GSSAPI (Kerberos) is not supported",
        ),
    ],
)
def test_a_login_file_without_users_of_plain_is_named(
    tmp_path: Path, text: str | None, expected: str
) -> None:
    file = tmp_path / "jaas.conf"
    if text is not None:
        file.write_text(text)
    said = problems(with_login(str(file)), tmp_path)
    assert "listener.name.in.plain.sasl.jaas.config" in said
    assert str(file) in said
    assert expected in said
    assert CANARY not in said


def test_a_login_file_that_no_listener_needs_may_be_missing(tmp_path: Path) -> None:
    without_plain = {"KAFKA_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-512"}
    settings = loaded(tmp_path, with_login("/does/not/exist") | without_plain)
    assert settings.login_file is not None
    assert (
        settings.login_file.failure == "/does/not/exist cannot be read: No such file or directory"
    )


def test_a_login_file_that_cannot_be_used_says_so_when_it_is_needed() -> None:
    assert login_file("/jaas.conf", LOGIN).modules("OUT") == (
        login_file("/jaas.conf", LOGIN).modules("SASL_PLAINTEXT")
    )
    for file in (
        login_file("/jaas.conf", "KafkaServer {"),
        unreadable_login_file("/jaas.conf", ""),
    ):
        with pytest.raises(JaasError, match=r"^/jaas\.conf"):
            file.modules("OUT")


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ("", None),
        ("-Xmx1g -Djava.security.krb5.conf=/krb.conf", None),
        ("-Djava.security.auth.login.config=", None),
        ("-Djava.security.auth.login.config=/a -Dx=y", "/a"),
        ("-Djava.security.auth.login.config==/a", "/a"),
        ("-Djava.security.auth.login.config=/a -Djava.security.auth.login.config=/b", "/b"),
        ("-Djava.security.auth.login.config=file:///etc/jaas.conf", "/etc/jaas.conf"),
        ("-Djava.security.auth.login.config=file:/etc/jaas.conf", "/etc/jaas.conf"),
    ],
)
def test_the_login_file_is_found_among_the_flags_of_the_jvm(options: str, path: str | None) -> None:
    assert login_file_path({"KAFKA_OPTS": options}) == path

"""Values of settings come from config providers, and errors never show these values."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_server.config import Loaded, SettingsError, load_settings

CANARY = "xyzzy-canary-42"
PACKAGE = "org.apache.kafka.common.config.provider"
CLASSES = {
    "file": f"{PACKAGE}.FileConfigProvider",
    "dir": f"{PACKAGE}.DirectoryConfigProvider",
    "env": f"{PACKAGE}.EnvVarConfigProvider",
}
PROVIDERS = {"config.providers": ",".join(CLASSES)} | {
    f"config.providers.{name}.class": text for name, text in CLASSES.items()
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a properties file, and with a file that has a password. Only the owner may read
    them."""
    properties = tmp_path / "secrets.properties"
    properties.write_text(
        f"password={CANARY}\npartitions = 7\nlong\\ key=a\\\n  b\nwrong=x{CANARY}\n"
    )
    (tmp_path / "password").write_text(f"{CANARY}\n")
    for file in tmp_path.iterdir():
        file.chmod(0o600)
    return tmp_path


def load(settings: dict[str, str], environment: dict[str, str] | None = None) -> Loaded:
    assignments = [f"{name}={text}" for name, text in (PROVIDERS | settings).items()]
    return load_settings(assignments=assignments, environment=environment)


def said(settings: dict[str, str], environment: dict[str, str] | None = None) -> str:
    """Return the text of the problems. No value of a provider is in it."""
    with pytest.raises(SettingsError) as refused:
        load(settings, environment)
    text = str(refused.value)
    assert CANARY not in text
    return text


def keystore_password(loaded: Loaded) -> str:
    assert loaded.settings.ssl_keystore_password is not None
    return loaded.settings.ssl_keystore_password.reveal()


@pytest.mark.parametrize(
    "variable",
    ["${file:FOLDER/secrets.properties:password}", "${dir:FOLDER:password}", "${env:PW}"],
)
def test_a_password_comes_from_each_provider(folder: Path, variable: str) -> None:
    text = variable.replace("FOLDER", str(folder))
    loaded = load({"ssl.keystore.password": text}, {"PW": CANARY})
    assert keystore_password(loaded) == CANARY
    assert not loaded.warnings
    assert CANARY not in repr(loaded)


def test_variables_are_parts_of_values_and_of_any_kind(folder: Path) -> None:
    file = f"${{file:{folder}/secrets.properties:"
    loaded = load(
        {
            "num.partitions": f"{file}partitions}}",
            "ssl.keystore.password": f"<{file}long key}}-{file}partitions}}>",
        }
    )
    assert loaded.settings.num_partitions == 7
    assert keystore_password(loaded) == "<ab-7>"


def test_a_login_module_takes_its_passwords_from_a_provider(folder: Path) -> None:
    module = f"{PACKAGE.replace('config.provider', 'security.plain')}.PlainLoginModule"
    jaas = f'{module} required user_alice="${{file:{folder}/secrets.properties:password}}";'
    loaded = load(
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
        }
    )
    (value,) = loaded.settings.of_listeners.values()
    assert CANARY in value.reveal()  # type: ignore[union-attr]  # a Secret
    broken = jaas.replace(" required", "")
    problem = said({"listener.name.sasl_plaintext.plain.sasl.jaas.config": broken})
    assert "config provider file" in problem


def test_all_sources_may_have_variables(folder: Path) -> None:
    file = folder / "server.properties"
    lines = [f"{name}={text}" for name, text in PROVIDERS.items()]
    file.write_text("\n".join([*lines, f"ssl.keystore.password=${{dir:{folder}:password}}"]))
    environment = {"KAFKA_SSL_KEY_PASSWORD": "${env:PW}", "PW": "of the key"}
    loaded = load_settings(config_file=file, environment=environment)
    assert keystore_password(loaded) == f"{CANARY}"
    assert loaded.settings.ssl_key_password is not None
    assert loaded.settings.ssl_key_password.reveal() == "of the key"


@pytest.mark.parametrize(
    ("variable", "reason"),
    [
        ("${file:/missing:key}", "config provider file: /missing cannot be read: No such file"),
        ("${file:FOLDER/secrets.properties:no}", "FOLDER/secrets.properties has no key 'no'"),
        ("${file:key}", "'key' has no path: the form is ${file:PATH:KEY}"),
        ("${dir:FOLDER:no}", "config provider dir: FOLDER has no file 'no'"),
        ("${dir:FOLDER/password:no}", "FOLDER/password is not a directory"),
        ("${dir:FOLDER:../password}", "'../password' is not the name of a file in FOLDER"),
        ("${env:NO}", "config provider env: there is no environment variable 'NO'"),
        ("${env:path:PW}", "a path is not supported: the form is ${env:NAME}"),
    ],
)
def test_a_variable_without_a_value_stops_the_start(
    folder: Path, variable: str, reason: str
) -> None:
    text = variable.replace("FOLDER", str(folder))
    problem = said({"ssl.keystore.password": text}, {"PW": CANARY})
    assert problem.startswith("ssl.keystore.password=[hidden] (--set): ")
    assert reason.replace("FOLDER", str(folder)) in problem


@pytest.mark.parametrize(
    ("name", "key"),
    [("num.partitions", "wrong"), ("listeners", "password"), ("ssl.client.auth", "password")],
)
def test_an_invalid_value_is_not_shown(folder: Path, name: str, key: str) -> None:
    problem = said({name: f"${{file:{folder}/secrets.properties:{key}}}"})
    expected = f"{name}=[hidden] (--set, config provider file): the provider's value is not valid"
    assert problem == expected


def test_a_misspelled_setting_does_not_show_the_value(folder: Path) -> None:
    problem = said({"num.partitons": f"${{dir:{folder}:password}}"})
    assert "num.partitons=[hidden]" in problem
    assert "did you mean num.partitions?" in problem


def test_a_variable_of_no_provider_stays_as_it_is() -> None:
    """As in Kafka: the text may have another meaning."""
    loaded = load({"ssl.keystore.password": "${vault:secret/data:key}${x}"})
    assert keystore_password(loaded) == "${vault:secret/data:key}${x}"
    assert loaded.warnings == (
        "ssl.keystore.password (--set): ${vault:…} stays as it is, because config.providers names "
        "no such provider",
    )
    without = load_settings(assignments=[f"ssl.keystore.password=${{p {CANARY}:x}}"])
    assert len(without.warnings) == 1
    assert CANARY not in without.warnings[0]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"config.providers": "vault"}, "config.providers.vault.class is not set"),
        (
            {"config.providers.file.class": "org.example.VaultConfigProvider"},
            f"the classes are {', '.join(CLASSES.values())}",
        ),
        ({"config.providers.vault.class": "x"}, "is the setting of no provider"),
        ({"config.providers.file.param.allowed.path": "/"}, "the only parameter of this class is"),
        ({"config.providers.env.param.allowed.paths": "/"}, "this class is allowlist.pattern"),
        ({"config.providers.file.param.allowed.paths": "etc"}, "Path etc is not absolute"),
        ({"config.providers.dir.param.allowed.paths": "/no/such"}, "Path /no/such does not exist"),
        ({"config.providers.env.param.allowlist.pattern": "a("}, "allowlist.pattern=a("),
    ],
)
def test_a_wrong_provider_stops_the_start(settings: dict[str, str], reason: str) -> None:
    assert reason in said(settings)


@pytest.mark.parametrize(
    ("path", "is_allowed"),
    [
        ("FOLDER/in/s.properties", True),
        ("FOLDER/other/../in/s.properties", True),
        ("FOLDER/in/../out.properties", False),
        ("FOLDER/inner.properties", False),
        ("FOLDER/in", False),
    ],
)
def test_only_allowed_paths_are_read(tmp_path: Path, path: str, is_allowed: bool) -> None:
    (tmp_path / "in").mkdir()
    for name in ("in/s.properties", "out.properties", "inner.properties"):
        file = tmp_path / name
        file.write_text(f"key={CANARY}")
        file.chmod(0o600)
    settings = {
        "config.providers.file.param.allowed.paths": f"/usr,{tmp_path}/x/../in",
        "ssl.keystore.password": f"${{file:{path.replace('FOLDER', str(tmp_path))}:key}}",
    }
    if is_allowed:
        assert keystore_password(load(settings)) == CANARY
    else:
        reason = "cannot be read" if path == "FOLDER/in" else "allowed.paths does not allow"
        assert reason in said(settings)


@pytest.mark.parametrize(("name", "is_allowed"), [("APP_PW", True), ("XAPP_PW", False)])
def test_only_allowed_variables_are_read(name: str, is_allowed: bool) -> None:
    settings = {
        "config.providers.env.param.allowlist.pattern": "APP_.*",
        "ssl.keystore.password": f"${{env:{name}}}",
    }
    if is_allowed:
        assert keystore_password(load(settings, {name: CANARY})) == CANARY
    else:
        assert "does not allow the environment variable" in said(settings, {name: CANARY})


def test_a_start_warns_of_a_file_that_others_may_read(folder: Path) -> None:
    path = folder / "secrets.properties"
    path.chmod(0o644)
    loaded = load({"ssl.keystore.password": f"${{file:{path}:password}}"})
    assert loaded.warnings == (
        f"other users may read {path}, which has a key or passwords: chmod 600 {path}",
    )


def test_a_file_that_is_no_properties_file_is_not_shown(folder: Path) -> None:
    path = folder / "broken.properties"
    path.write_text(f"key={CANARY}\\u12")
    assert "is not a properties file" in said({"ssl.key.password": f"${{file:{path}:key}}"})

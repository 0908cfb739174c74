"""The broker never prints the value of a secret setting, from any source and in any spelling."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_server.config import SettingsError, load_settings

CANARY = "xyzzy-canary-42"
SECRETS = (
    "sasl.jaas.config",
    "ssl.keystore.pasword",
    "listener.name.external.plain.sasl.jaas.config",
    "listener.name.external.ssl.key.password",
    "delegation.token.secret.key",
    "my.plugin.credentials",
)


def _printed(**sources: object) -> str:
    """Return all text that a start would print about these settings."""
    try:
        loaded = load_settings(**sources)  # type: ignore[arg-type]  # of any kind
    except SettingsError as error:
        return "\n".join(map(str, error.problems))
    return "\n".join([*loaded.warnings, *loaded.without_effect])


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_named_and_not_shown(name: str, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"{name}={CANARY}\n")
    variable = "KAFKA_" + name.upper().replace(".", "_")
    for said in (
        _printed(config_file=file),
        _printed(environment={variable: CANARY}),
        _printed(assignments=[f"{name}={CANARY}"]),
    ):
        assert name in said
        assert CANARY not in said


def test_an_assignment_without_its_equals_sign_shows_no_secret() -> None:
    said = _printed(assignments=[f"ssl.keystore.password:{CANARY}"])
    assert "expected name=value" in said
    assert CANARY not in said


def test_a_secret_inside_the_value_of_an_unknown_setting_is_not_shown() -> None:
    jaas = f'org.example.Login required username="u" password="{CANARY}";'
    said = _printed(assignments=[f"my.login={jaas}"])
    assert "my.login" in said
    assert CANARY not in said


def test_other_values_are_shown() -> None:
    assert "num.partitons=3 (--set)" in _printed(assignments=["num.partitons=3"])

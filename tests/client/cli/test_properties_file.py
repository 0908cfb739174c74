"""Files of client settings are read as Java reads them. The package javaproperties, which the
broker uses, is the oracle."""

from __future__ import annotations

from pathlib import Path

import click
import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.cli.options import parse_settings, read_properties
from oncelog_client.cli.properties_file import PropertiesError, parse_properties
from oncelog_client.kafka_tools.config_options import OPTIONS, added
from oncelog_client.kafka_tools.connecting import read_settings

CANARY = "S3cret!"
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@given(st.text(alphabet="ab#!=: \t\f\\\n\ru04€", max_size=40))
def test_any_text_has_the_properties_of_java(text: str) -> None:
    try:
        expected = javaproperties.loads(text)
    except javaproperties.InvalidUEscapeError:
        return
    # For a backslash at the end of the file Java has an empty name, and javaproperties has none.
    with_bare_names = dict(parse_properties(text, allow_bare_names=True))
    assert {**with_bare_names, "": 0} == {**expected, "": 0}
    try:
        ours = dict(parse_properties(text))
    except PropertiesError:
        return  # a name without a separator, for which Java takes an empty value
    assert ours == expected


@pytest.mark.parametrize(
    ("written", "password"),
    [
        ("a-secret ", "a-secret "),
        ("a=b:c[d]", "a=b:c[d]"),
        ("a\\\n  -secret", "a-secret"),
        ("\\u00e4\\\\b", "\u00e4\\b"),
    ],
)
def test_a_password_in_a_file_of_kafka_configs_is_the_one_of_java(
    written: str, password: str, tmp_path: Path
) -> None:
    """A former defect: the tool set another password than Kafka's tool."""
    path = tmp_path / "user.properties"
    text = f"# a user\nSCRAM-SHA-256=iterations=4096,password={written}\nproducer_byte_rate\n"
    path.write_text(text)
    command = ("--alter", "--user", "a", "--add-config-file", str(path))
    assert added(OPTIONS.parse(command)) == {
        "SCRAM-SHA-256": f"iterations=4096,password={password}",
        "producer_byte_rate": "",
    }


@pytest.mark.parametrize("text", ["name", "a=b\n name", "=x", "a=b\n\\\n"])
def test_a_line_without_a_value_is_refused_by_its_number(text: str) -> None:
    with pytest.raises(PropertiesError, match=rf"line {text.count('a=b') + 1} is not name=value"):
        parse_properties(text)


def test_a_jaas_configuration_may_have_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        f'sasl.jaas.config={JAAS} \\\n  username="u" \\\n  password="{CANARY}";\nacks : all\n'
    )
    expected = {
        "sasl_jaas_config": f'{JAAS} username="u" password="{CANARY}";',
        "acks": "all",
    }
    assert read_properties(path) == expected
    assert read_settings(str(path)) == expected


@pytest.mark.parametrize("value", ["123456", "true", " 1 ", "1e3", "None"])
def test_a_password_stays_a_text(value: str, tmp_path: Path) -> None:
    """A former defect: the password `123456` became a number, and `true` a bool."""
    path = tmp_path / "client.properties"
    path.write_text(f"sasl.password={value}\nssl.key.password={value}\n", encoding="utf-8")
    # Java drops the blanks before a value, and Kafka keeps those behind a password.
    expected = {"sasl_password": value.lstrip(), "ssl_key_password": value.lstrip()}
    assert read_properties(path) == expected
    assert read_settings(str(path)) == expected
    assert parse_settings([f"sasl.password={value}"]) == {"sasl_password": value}


def test_settings_of_the_java_runtime_are_ignored_and_others_refused() -> None:
    ignored = ["ssl.protocol=TLSv1.3", "sasl.kerberos.service.name=kafka"]
    assert parse_settings([*ignored, "ssl.keystore.type=PEM"]) == {"ssl_keystore_type": "PEM"}
    for pair, reason in (
        ("ssl.engine.factory.class=x.Y", "is not supported: it names a class of Java"),
        ("ssl.keystore.pasword=" + CANARY, r"did you mean ssl\.keystore\.password"),
        ("sasl.oauthbearer.token=" + CANARY, "there is no setting"),
    ):
        with pytest.raises(click.UsageError, match=reason) as caught:
            parse_settings([pair])
        assert CANARY not in str(caught.value)

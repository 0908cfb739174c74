"""JAAS configurations: known modules, contexts of listeners, and errors that show no secret.

`tests/conformance/sasl/test_jaas.py` compares the syntax with Java's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.security.jaas import (
    JaasModule,
    LoginModule,
    client_modules,
    jaas_contexts,
    jaas_module,
    plain_users,
    server_modules,
)
from oncelog_protocol.security.jaas_syntax import JaasError

SETTING = "listener.name.a.plain.sasl.jaas.config"
KAFKA = "org.apache.kafka.common.security"

FILE = f"""
// The users of the brokers.
KafkaServer {{
    {KAFKA}.plain.PlainLoginModule required
        username="broker" user_alice="A" user_bob=b;   /* one
    more */ {KAFKA}.plain.PlainLoginModule required user_alice="second" user_carol="c";
    {KAFKA}.scram.ScramLoginModule required user_dora="no user of PLAIN";
}};
sasl_ssl.KafkaServer {{ x.PlainLoginModule optional user_eve="e"; }};
KafkaClient {{ x.ScramLoginModule required username="u" password="p"; }};
Client {{ org.apache.zookeeper.server.auth.DigestLoginModule required; }};
Empty {{ }};
"""


def revealed(module: JaasModule) -> dict[str, str]:
    return {name: value.reveal() for name, value in module.options.items()}


@pytest.mark.parametrize("package", ["", f"{KAFKA}.plain.", "kafkashaded.org.apache.kafka."])
def test_a_module_is_known_by_its_simple_name(package: str) -> None:
    module = jaas_module(SETTING, f'{package}PlainLoginModule required username="a" password=b;')

    assert module.module is LoginModule.PLAIN
    assert revealed(module) == {"username": "a", "password": "b"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"a\"b"', 'a"b'),
        (r'"a\\b"', r"a\b"),
        (r'"\101\t\q"', "A\tq"),
        ("'a\"b'", 'a"b'),
        ('"//a/*b"', "//a/*b"),
        ('"#;="', "#;="),
        ("word-1_$.é", "word-1_$.é"),
        ('""', ""),
    ],
)
def test_a_value_is_unquoted_as_in_java(text: str, value: str) -> None:
    module = jaas_module(SETTING, f"PlainLoginModule required password={text};")

    assert revealed(module) == {"password": value}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no login module"),
        (" // PlainLoginModule required;", "has no login module"),
        ("PlainLoginModule", "has no control flag"),
        ("PlainLoginModule;", "has none of the control flags required, requisite, sufficient"),
        ("PlainLoginModule required", "does not end with a semicolon"),
        ("PlainLoginModule required a=b", "does not end with a semicolon"),
        ("PlainLoginModule required a=b c=5;", "has no value for option 2; .* needs quotes"),
        ("PlainLoginModule required a;", "has no value for option 1"),
        ("PlainLoginModule required; PlainLoginModule required;", "has 2 login modules, not 1"),
        ("5 required;", "something else than a class"),
        ("x.Krb5LoginModule required;", "Krb5LoginModule: GSSAPI .Kerberos. is not supported"),
        (
            "x.JndiLoginModule required;",
            "has the unknown login module JndiLoginModule: use one of Plain",
        ),
        (
            "x required;",
            "has no known login module: use one of PlainLoginModule, ScramLoginModule, OAuth",
        ),
        ("PlainLoginModule required a=\udc80;", "is not valid UTF-8"),
    ],
)
def test_a_wrong_property_is_refused_by_the_name_of_its_setting(text: str, message: str) -> None:
    with pytest.raises(JaasError, match=f"^{SETTING} .*{message}"):
        jaas_module(SETTING, text)


def test_a_listener_has_the_modules_of_its_own_context_or_of_all() -> None:
    contexts = jaas_contexts("kafka.jaas", FILE)

    own = server_modules("kafka.jaas", contexts, "SASL_SSL")
    shared = server_modules("kafka.jaas", contexts, "INTERNAL")

    assert [list(module.options) for module in own] == [["user_eve"]]
    assert [module.module for module in shared] == ["PlainLoginModule"] * 2 + ["ScramLoginModule"]


def test_users_of_plain_are_options_of_its_module_and_the_first_counts() -> None:
    modules = server_modules("kafka.jaas", jaas_contexts("kafka.jaas", FILE), "INTERNAL")

    users = {name: password.reveal() for name, password in plain_users(modules).items()}

    assert users == {"alice": "A", "bob": "b", "carol": "c"}


def test_a_client_has_the_modules_of_its_context() -> None:
    (module,) = client_modules("kafka.jaas", jaas_contexts("kafka.jaas", FILE))

    assert revealed(module) == {"username": "u", "password": "p"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A { PlainLoginModule required a=b;\n } ", "line 2 is the last, but the section"),
        ("A {\n\n PlainLoginModule required a=5; };", "line 3 has something else .* value"),
        ("A { PlainLoginModule required 'a'=b; };", "line 1 .* name of an option; .* quotes"),
        ("A { PlainLoginModule needed; };", "line 1 has none of the control flags"),
        ("A { x required; };\nA { x required; };", "line 2 ends the second section"),
        ("A x required; };", "line 1 has something else in place of '{'"),
        ('A { x required password="${java.home}"; };', "a Java system property"),
        ("\udc80", "is not valid UTF-8"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_the_line(text: str, message: str) -> None:
    with pytest.raises(JaasError, match=f"^kafka.jaas: .*{message}"):
        jaas_contexts("kafka.jaas", text)


@pytest.mark.parametrize("value", ["${", "${{a}}", "a$b", "${open"])
def test_text_that_java_does_not_expand_stays(value: str) -> None:
    contexts = jaas_contexts("f", f'KafkaClient {{ PlainLoginModule required p="{value}"; }};')

    assert revealed(client_modules("f", contexts)[0]) == {"p": value}


@pytest.mark.parametrize(
    ("find", "message"),
    [
        (
            lambda contexts: server_modules("f", contexts, "SASL_SSL"),
            "f has no context 'sasl_ssl.KafkaServer' or 'KafkaServer'",
        ),
        (lambda contexts: client_modules("f", contexts), "f: context 'KafkaClient' has .* GSSAPI"),
    ],
)
def test_a_file_without_a_context_that_can_be_used_is_refused(
    find: Callable[[object], object], message: str
) -> None:
    contexts = jaas_contexts("f", "KafkaClient { a.Krb5LoginModule required; }; KafkaServer { };")

    with pytest.raises(JaasError, match=message):
        find(contexts)


def test_a_file_without_a_client_is_refused() -> None:
    with pytest.raises(JaasError, match="f has no context 'KafkaClient'"):
        client_modules("f", {})


SECRET = "S3cretLoginModule1"
PIECES = [SECRET, f'"{SECRET}"', f"'{SECRET}'", "PlainLoginModule", "required", "a=", "=", ";", '"']
PIECES += ["{", "};", "${", "}", " ", "\n", "//", "/*", "\\", "5"]


@given(st.lists(st.sampled_from(PIECES)))
def test_no_error_shows_a_part_of_the_configuration(pieces: list[str]) -> None:
    text = "".join(pieces)
    shown: list[object] = []
    try:
        shown.append(jaas_module("name", text))
    except JaasError as refused:
        shown.append(refused)
    try:
        # The names of contexts are no secrets.
        shown += jaas_contexts("name", text).values()
    except JaasError as refused:
        shown.append(refused)
    assert SECRET not in repr(shown)


@given(st.text())
def test_any_text_is_a_configuration_or_refused(text: str) -> None:
    for read in (jaas_module, jaas_contexts):
        try:
            result: object = read("name", text)
        except JaasError as refused:
            result = refused
        assert result is not None

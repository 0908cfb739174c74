"""The tokens of JAAS. `tests/conformance/sasl/test_jaas.py` compares them with Java's."""

from __future__ import annotations

import pytest

from oncelog_protocol.security.jaas_tokens import NUMBER, WORD, JaasToken, jaas_tokens


def read(text: str) -> list[tuple[str, str | None]]:
    return [(token.kind, token.text) for token in jaas_tokens(text, "-_$")]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a.b-c_d$5 é", [(WORD, "a.b-c_d$5"), (WORD, "é")]),
        ("a*b", [(WORD, "a"), ("*", None), (WORD, "b")]),
        ("a=5x", [(WORD, "a"), ("=", None), (NUMBER, None), (WORD, "x")]),
        ("-5 -x -", [(NUMBER, None), ("-", None), (WORD, "x"), ("-", None)]),
        ("1.2.3", [(NUMBER, None), (NUMBER, None)]),
        ('"a;b"\'c"d\'', [('"', "a;b"), ("'", 'c"d')]),
        (r'"\"\\\n\q\1011\477"', [('"', "\"\\\nqA1'7")]),
        ('"open\nb', [('"', "open"), (WORD, "b")]),
        ('"open\\', [('"', "open")]),
        ("a/b\nc", [(WORD, "a"), (WORD, "c")]),
        ("a/*/b*/c//d\re", [(WORD, "a"), (WORD, "c"), (WORD, "e")]),
        ("a/*b", [(WORD, "a")]),
        ("\x85\x7f#", [("\x85", None), ("\x7f", None), ("#", None)]),
        ("", []),
    ],
)  # fmt: skip
def test_text_is_cut_as_by_java(text: str, tokens: list[tuple[str, str | None]]) -> None:
    assert read(text) == tokens


def test_a_token_has_its_line() -> None:
    text = 'a /* \n */ b\n// c\n"d" 5'

    assert [token.line for token in jaas_tokens(text, "")] == [1, 2, 4, 4]


def test_the_letters_belong_to_words() -> None:
    assert list(jaas_tokens("a*b", "*")) == [JaasToken(WORD, "a*b", 1)]

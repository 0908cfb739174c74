"""The syntax of JAAS: the value of `sasl.jaas.config`, and files with a section for each context.

The property is read as Kafka's JaasConfig does, a file as the JDK's ConfigFile. All option values
are secrets, and an error shows no part of the configuration: a misplaced quote makes a password the
name of an option.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from oncelog_protocol.secret import Secret
from oncelog_protocol.security.jaas_tokens import WORD, JaasToken, jaas_tokens

_PROPERTY_LETTERS: Final = "-_$"
_FILE_LETTERS: Final = "-_$*"
_CONTROL_FLAGS: Final = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
# Java replaces `${name}` in a file by a system property. `${{…}}` stays.
_SYSTEM_PROPERTY: Final = re.compile(r"\$\{(?!\{)[^}]*\}")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


class JaasError(ValueError):
    """A JAAS configuration that cannot be used. The message holds nothing of its content."""


class JaasEntry(NamedTuple):
    """A login module as written: the name of its class, its flag in upper case, its options."""

    class_name: str
    control_flag: str
    options: Mapping[str, Secret]

    @property
    def simple_name(self) -> str:
        """Return the class name without its package."""
        return self.class_name.rpartition(".")[2]

    def __repr__(self) -> str:
        return f"JaasEntry({len(self.options)} options)"


def parse_property(configuration: str) -> list[JaasEntry]:
    """Return the login modules of the value of `sasl.jaas.config`: `<class> <flag> <name>=<value> …
    ;`. Raises JaasError."""
    _check_text(configuration)
    tokens = jaas_tokens(configuration, _PROPERTY_LETTERS)
    entries = [_property_entry(first, tokens) for first in tokens]
    if not entries:
        raise JaasError("has no login module")
    return entries


def _property_entry(first: JaasToken, tokens: Iterator[JaasToken]) -> JaasEntry:
    flag = next(tokens, None)
    if flag is None:
        raise JaasError("has no control flag (required) after the login module")
    control_flag = _control_flag(flag.text)
    options: dict[str, Secret] = {}
    for number, key in enumerate(tokens, 1):
        if key.kind == ";":
            return _entry(first.text, control_flag, options)
        value = next(tokens, None) if _kind(next(tokens, None)) == "=" else None
        if value is None or value.text is None:
            raise JaasError(
                f"has no value for option {number}; a value that is not a word needs quotes"
            )
        # If the name is a number or a sign, Java stores the option under null. No module reads it.
        if key.text is not None:
            options[key.text] = Secret(value.text)
    raise JaasError("does not end with a semicolon")


def parse_file(configuration: str) -> dict[str, tuple[JaasEntry, ...]]:
    """Return the contexts of a JAAS file: `<context> { <class> <flag> <name>=<value> … ; … };`.
    Raises JaasError with the line."""
    _check_text(configuration)
    # As in Java, a number or a sign may be in place of a context's name. The name is then None, and
    # no program looks for it.
    contexts: dict[str | None, tuple[JaasEntry, ...]] = {}
    reader = _FileReader(jaas_tokens(configuration, _FILE_LETTERS))
    try:
        while reader.token is not None:
            name, entries = _file_context(reader)
            if name in contexts:
                raise JaasError("ends the second section of a context")
            contexts[name] = entries
    except JaasError as failure:
        raise JaasError(f"line {reader.line} {failure}") from None
    # For Java, a section without modules does not exist.
    return {name: entries for name, entries in contexts.items() if name is not None and entries}


class _FileReader:
    """The next token of a file, and the line of the token before it."""

    def __init__(self, tokens: Iterator[JaasToken]) -> None:
        self._tokens = tokens
        self.line = 1
        self.token = next(tokens, None)

    def advance(self) -> JaasToken:
        """Return the next token and skip it. Raises JaasError at the end of the file."""
        token = self.token
        if token is None:
            raise JaasError("is the last, but the section of the context has not ended")
        self.line = token.line
        self.token = next(self._tokens, None)
        return token

    def match(self, sign: str) -> None:
        """Skip a sign. Raises JaasError if another token follows."""
        if self.advance().kind != sign:
            raise JaasError(f"has something else in place of {sign!r}")

    def text(self, name: str) -> str:
        """Return a word or a text in double quotes. Raises JaasError if another token follows."""
        token = self.advance()
        if token.text is None or token.kind not in (WORD, '"'):
            raise JaasError(
                f"has something else in place of the {name}; numbers and text with other "
                "characters need double quotes"
            )
        return token.text


def _file_context(reader: _FileReader) -> tuple[str | None, tuple[JaasEntry, ...]]:
    name = reader.advance().text
    reader.match("{")
    entries = []
    while _kind(reader.token) != "}":
        entries.append(_file_entry(reader))
    reader.match("}")
    reader.match(";")
    return name, tuple(entries)


def _file_entry(reader: _FileReader) -> JaasEntry:
    class_name = reader.text("login module")
    control_flag = _control_flag(reader.text("control flag"))
    options: dict[str, Secret] = {}
    while _kind(reader.token) != ";":
        key = reader.text("name of an option")
        reader.match("=")
        value = reader.text("value of an option")
        if _SYSTEM_PROPERTY.search(value):
            raise JaasError("refers to a Java system property with `${…}`, and there are none")
        options[key] = Secret(value)
    reader.advance()
    return _entry(class_name, control_flag, options)


def _entry(class_name: str | None, control_flag: str, options: dict[str, Secret]) -> JaasEntry:
    if not class_name:
        raise JaasError("has something else than a class in place of the login module")
    return JaasEntry(class_name, control_flag, options)


def _control_flag(text: str | None) -> str:
    flag = (text or "").upper()
    if flag not in _CONTROL_FLAGS:
        raise JaasError(
            f"has none of the control flags {', '.join(_CONTROL_FLAGS).lower()} after the login "
            "module"
        )
    return flag


def _check_text(configuration: str) -> None:
    """Raise JaasError for surrogates, which come from bytes that are not UTF-8."""
    if _SURROGATE.search(configuration):
        raise JaasError("is not valid UTF-8")


def _kind(token: JaasToken | None) -> str:
    return token.kind if token is not None else ""

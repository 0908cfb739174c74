"""`ssl.principal.mapping.rules`: the name of a principal from the distinguished name of its
certificate (KIP-371, SslPrincipalMapper)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from oncelog_server.security.java_pattern import JavaPattern, TooCostly
from oncelog_server.security.java_pattern_syntax import JavaPatternError

SETTING: Final = "ssl.principal.mapping.rules"
DEFAULT: Final = "DEFAULT"

# Java's `.` and `$`, in the words of Python.
_ANY: Final = r"[^\n\r\u0085\u2028\u2029]"
_END: Final = r"(?=(?:\r\n|[\n\r\u0085\u2028\u2029])?\Z)"
_RULE: Final = (
    rf"(DEFAULT)|RULE:((\\{_ANY}|[^\\/])*)/((\\{_ANY}|[^\\/])*)/([LU]?){_ANY}*?|({_ANY}*?)"
)
_SPACE: Final = r"[ \t\n\x0b\f\r]*"
# String.trim() removes these, and no other spaces.
_TRIMMED: Final = "".join(map(chr, range(0x21)))
# The longest name, and the number of names with a stored result. Both bound memory and time.
MOST_NAME_CHARACTERS: Final = 8_192
MOST_STORED: Final = 1_000


class PrincipalRulesError(ValueError):
    """The rules are wrong. The message names the rule."""


class NoRuleApplies(Exception):
    """No rule matches a name. The connection must then be refused, not become anonymous."""


class _Rule(NamedTuple):
    """`pattern` is None for DEFAULT. `replacement` has text, and numbers of groups."""

    pattern: JavaPattern | None
    replacement: tuple[str | int, ...] = ()
    case: str = ""


class PrincipalRules:
    """The rules of a listener. The first one that matches the whole name gives the principal's
    name. Raises PrincipalRulesError."""

    def __init__(self, text: str) -> None:
        self._rules = [rule for part in _split(text) if (rule := _parsed(part)) is not None]
        self._stored: dict[str, str] = {}

    def name_of(self, distinguished_name: str) -> str:
        """Return the name of the principal, without its type. Raises NoRuleApplies."""
        name = self._stored.get(distinguished_name)
        if name is None:
            name = self._applied(distinguished_name)
            if len(self._stored) >= MOST_STORED:
                self._stored.clear()
            self._stored[distinguished_name] = name
        return name

    def _applied(self, name: str) -> str:
        if len(name) > MOST_NAME_CHARACTERS:
            raise NoRuleApplies(f"the name has more than {MOST_NAME_CHARACTERS} characters")
        try:
            for rule in self._rules:
                if rule.pattern is None:
                    return name
                if rule.pattern.full_match(name):
                    return _replaced(rule, rule.pattern, name)
        except TooCostly:
            raise NoRuleApplies(f"a rule of {SETTING} takes too long for {name!r}") from None
        raise NoRuleApplies(f"no rule of {SETTING} matches {name!r}")


def _split(text: str) -> list[str]:
    """Return the rules of the setting, as SslPrincipalMapper.splitRules finds them."""
    splitter = re.compile(rf"{_SPACE}({_RULE}){_SPACE}(,{_SPACE}|{_END})")
    text = text.strip(_TRIMMED)
    rules: list[str] = []
    at = 0
    # After an empty match, Java searches from the next position on, and Python from the same one.
    while at <= len(text) and (found := splitter.search(text, at)) is not None:
        rules.append(found[1])
        at = found.end() + (found.start() == found.end())
    return rules


def _parsed(text: str) -> _Rule | None:
    """Return a rule, or None for an empty one. Raises PrincipalRulesError."""
    found = re.compile(_RULE).match(text)
    if found is None or found.end() != len(text):
        raise PrincipalRulesError(
            f"the rule {text!r} is neither DEFAULT nor RULE:pattern/replacement/ with L or U"
        )
    if found[1] is not None:
        return _Rule(None)
    if found[2] is None:
        return None
    try:
        pattern = JavaPattern(found[2])
    except JavaPatternError as error:
        raise PrincipalRulesError(f"the pattern of the rule {text!r} {error}") from None
    try:
        return _Rule(pattern, _replacement(_with_literals(found[4], pattern), pattern), found[6])
    except ValueError as error:
        raise PrincipalRulesError(f"the replacement of the rule {text!r} {error}") from None


def _with_literals(replacement: str, pattern: JavaPattern) -> str:
    r"""Return the replacement with a `\` before each `$` of a group that the pattern does not have
    (SslPrincipalMapper.escapeLiteralBackReferences). `$12` stands for group 1 and the text 2 if
    there are fewer than 12 groups."""
    if not pattern.groups:
        return replacement
    value = replacement
    for found in re.finditer(r"\$([0-9]+)", replacement):
        if found[1].startswith("0"):
            continue
        index = int(found[1])
        if index > 0x7FFFFFFF:
            raise ValueError(f"has the group {found[1]}, which is too large")
        while index > pattern.groups and index >= 10:
            index //= 10
        if index > pattern.groups:
            # As in Kafka, the position is that in the original replacement, although earlier
            # changes have moved the text.
            start = found.start(1) - 1
            value = f"{value[:start]}\\{value[start:]}"
    return value


def _replacement(text: str, pattern: JavaPattern) -> tuple[str | int, ...]:
    """Return the parts of a replacement as Matcher.appendReplacement reads it. Raises ValueError.

    Kafka finds such an error only when the rule first matches a name.
    """
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        letter, at = text[at], at + 1
        if letter == "\\":
            if at == len(text):
                raise ValueError("ends with a \\")
            parts.append(text[at])
            at += 1
        elif letter == "$":
            index, at = _group_reference(text, at, pattern)
            parts.append(index)
        else:
            parts.append(letter)
    return tuple(parts)


def _group_reference(text: str, at: int, pattern: JavaPattern) -> tuple[int, int]:
    """Return the group that a `$` before `at` stands for, and the position behind it."""
    named = re.compile(r"\{([a-zA-Z][a-zA-Z0-9]*)\}").match(text, at)
    if named is not None:
        if named[1] not in pattern.names:
            raise ValueError(f"has the group {named[1]}, and the pattern has none of that name")
        return pattern.names[named[1]], named.end()
    if not re.match(r"[0-9]", text[at : at + 1]):
        raise ValueError("has a $ without the number of a group (write \\$ for the sign)")
    index, at = int(text[at]), at + 1
    while re.match(r"[0-9]", text[at : at + 1]) and index * 10 + int(text[at]) <= pattern.groups:
        index, at = index * 10 + int(text[at]), at + 1
    if index > pattern.groups:
        raise ValueError(f"has the group {index}, and the pattern has {pattern.groups}")
    return index, at


def _replaced(rule: _Rule, pattern: JavaPattern, name: str) -> str:
    """Return String.replaceAll of the name, in the case of the rule."""
    written: list[str] = []
    for before, *groups in pattern.find_all(name):
        written.append(before or "")
        if groups:
            written += (
                part if isinstance(part, str) else groups[part] or "" for part in rule.replacement
            )
    result = "".join(written)
    return result.lower() if rule.case == "L" else result.upper() if rule.case == "U" else result

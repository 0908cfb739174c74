"""Values that are never printed: passwords, keys, tokens, JAAS configurations.

A `Secret` has the value of a setting that is known to be secret. `looks_secret` and `displayed` are
for names that are not in the table of settings: a misspelled `ssl.keystore.pasword` still has a
password as value.
"""

from __future__ import annotations

import re
from typing import Final, final

HIDDEN: Final = "[hidden]"
"""The printed text in place of a secret, as in Kafka's `Password`."""

_WORDS: Final = ("password", "secret", "jaas", "credential", "token", "passphrase", "passwd")
# Largest edit distance between a word of a name and a word of `_WORDS` that counts as a
# misspelling.
_MISSPELLED: Final = {"password": 2, "credential": 2, "passphrase": 2, "secret": 1, "token": 1}
# The patterns are compiled at their use: few processes need them, and every process imports this
# module.
_SEPARATORS: Final = r"[._\-\s]+"
# Matches a value that contains a secret, although its name does not look secret:
# `… password="x";`, `https://user:x@proxy`.
_SECRET_INSIDE: Final = rf"(?i)(?:{'|'.join(_WORDS)})[\w.\-]*[\"']?\s*[=:]|:[^/\s@]+@|-----BEGIN "


@final
class Secret:
    """A secret text. `reveal()` returns it; str, repr, format and `%` give `[hidden]`.

    Hashable and picklable, so that it can be part of a cache key and reach Spark's executors; equal
    to another Secret with the same text, never to the text itself.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the secret text. Only for the code that sends it."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __bool__(self) -> bool:
        return bool(self._text)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return (Secret, (self._text,))


def looks_secret(name: str) -> bool:
    """Return True if the name of an unknown setting suggests a secret value.

    True for names that contain a word of `_WORDS` (password, token, …) in upper or lower case, or
    a misspelling of such a word.
    """
    lower = name.lower()
    if any(word in lower for word in _WORDS):
        return True
    return any(
        _distance(part, word) <= most
        for part in re.split(_SEPARATORS, lower)
        for word, most in _MISSPELLED.items()
        if abs(len(part) - len(word)) <= most
    )


def displayed(name: str, value: object) -> str:
    """Return the value of an unknown setting as an error may show it: its repr, or `[hidden]` if
    the name looks secret or the value holds a secret (`password="…"`, `https://user:…@host`)."""
    if isinstance(value, Secret) or looks_secret(name) or re.search(_SECRET_INSIDE, str(value)):
        return HIDDEN
    return repr(value)


def _distance(first: str, second: str) -> int:
    """Return the number of edits between two words; swapped neighbours are one edit."""
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        before, last, row = row, before, [i]
        for j, wanted in enumerate(second, 1):
            cost = min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == wanted:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]

"""The tokens of a JAAS configuration, cut exactly as Java's `StreamTokenizer` cuts them.

A difference would give another password than Kafka has. So the oddities are here too: a number is
no word, `/` begins a comment, a quoted text ends at the end of its line, and `\\101` is `A`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS: Final = "0123456789"
# A token that begins with these is a number or a sign. Inside a word they are letters.
_NUMERIC: Final = _DIGITS + ".-"
_QUOTES: Final = "\"'"
_OCTAL: Final = "01234567"
_LINE_ENDS: Final = "\n\r"
_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip


class JaasToken(NamedTuple):
    """A token. `kind` is `WORD` for a word, the quote for a quoted text, `NUMBER` for a number,
    else the character itself. `text` is the word or the content of the quotes, None for other
    kinds. `line` counts from 1."""

    kind: str
    text: str | None
    line: int


WORD: Final = "word"
NUMBER: Final = "number"


def jaas_tokens(configuration: str, letters: str) -> Iterator[JaasToken]:
    """Yield the tokens. `letters`: further characters that a word may have, besides letters,
    digits, `.` and all characters from U+00A0."""
    return iter(_Tokenizer(configuration, letters))


class _Tokenizer:
    """A position in a configuration."""

    def __init__(self, configuration: str, letters: str) -> None:
        self._text = configuration
        self._letters = frozenset(_LETTERS + letters)
        self._at = 0
        self._line = 1
        self._counted = 0

    def __iter__(self) -> Iterator[JaasToken]:
        while self._skip():
            self._count_lines()
            character = self._text[self._at]
            if character in _NUMERIC:
                yield self._number(character)
            elif self._is_letter(character):
                yield JaasToken(WORD, self._word(), self._line)
            elif character in _QUOTES:
                self._at += 1
                yield JaasToken(character, self._quoted(character), self._line)
            else:
                self._at += 1
                yield JaasToken(character, None, self._line)

    def _count_lines(self) -> None:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at

    def _peek(self, ahead: int = 0) -> str:
        """Return a character, or an empty text after the last."""
        return self._text[self._at + ahead : self._at + ahead + 1]

    def _is_letter(self, character: str) -> bool:
        return character in self._letters or character >= "\xa0"

    def _skip(self) -> bool:
        """Skip whitespace and comments. Return False at the end."""
        while character := self._peek():
            if character <= " ":
                self._at += 1
            elif character != "/":
                return True
            elif self._peek(1) == "*":
                end = self._text.find("*/", self._at + 2)
                self._at = len(self._text) if end < 0 else end + 2
            else:
                while (character := self._peek()) and character not in _LINE_ENDS:
                    self._at += 1
        return False

    def _number(self, character: str) -> JaasToken:
        """Return a number, or a sign `-` without one. Its value is not needed."""
        self._at += 1
        if character == "-":
            following = self._peek()
            if not following or following not in _DIGITS + ".":
                return JaasToken("-", None, self._line)
        dots = character.count(".")
        while following := self._peek():
            if following == "." and not dots:
                dots = 1
            elif following not in _DIGITS:
                break
            self._at += 1
        return JaasToken(NUMBER, None, self._line)

    def _word(self) -> str:
        start = self._at
        while (character := self._peek()) and (self._is_letter(character) or character in _NUMERIC):
            self._at += 1
        return self._text[start : self._at]

    def _quoted(self, quote: str) -> str:
        """Return the text up to the quote or the end of the line, without escapes."""
        parts: list[str] = []
        while (character := self._peek()) and character != quote and character not in _LINE_ENDS:
            self._at += 1
            parts.append(self._escaped() if character == "\\" else character)
        if character == quote:
            self._at += 1
        return "".join(parts)

    def _escaped(self) -> str:
        """Return the character of an escape: one to three octal digits (of three, the first is at
        most 3), a letter of `_ESCAPES`, or the character itself."""
        first = self._peek()
        self._at += 1
        if not first or first not in _OCTAL:
            return _ESCAPES.get(first, first)
        digits = first
        longest = 3 if first <= "3" else 2
        while len(digits) < longest and (digit := self._peek()) and digit in _OCTAL:
            digits += digit
            self._at += 1
        return chr(int(digits, 8))

"""Makes text from clients safe to print. Control characters, escape sequences and bidirectional
controls in an identifier could move the cursor, forge lines or hide text."""

from __future__ import annotations

from typing import Any

NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    r"""Return `text`. Every character that is not printable is replaced by an escape, such as `\n`,
    `\x1b` or `\u202e`."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def printable_lines(text: str) -> str:
    """Return `text` as `printable` does, but keep its line ends."""
    return "\n".join(map(printable, text.split("\n")))


def json_text(value: Any) -> str:
    r"""Return `value` as JSON on one line. Control characters that JSON allows in a string (C1,
    bidirectional controls), and lone surrogates, become `\uXXXX`."""
    # Imported here: most commands print no JSON.
    import json

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.isprintable() else "".join(map(_json_escaped, text))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    number = ord(character)
    if number > 0xFFFF:
        return f"\\U{number:08x}"
    return NAMED.get(character) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")


def _json_escaped(character: str) -> str:
    import json

    return character if character.isprintable() else json.dumps(character)[1:-1]

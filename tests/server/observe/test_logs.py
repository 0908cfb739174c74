"""The broker's log escapes control characters in a client's name, because operators read the log on
terminals."""

from __future__ import annotations

import pytest

from oncelog_server.observe.logs import TRACEBACK, escape_controls


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\r\nb", "a\\r\\nb"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("line\u2028end", "line\\u2028end"),
        ("Bücher-✓", "Bücher-✓"),
    ],
)
def test_control_characters_are_escaped_wherever_they_are(raw: str, shown: str) -> None:
    event = {"event": raw, "client_id": raw, "ids": (raw, [raw]), "by": {raw: 1}, "port": 1}
    assert escape_controls(None, "info", event) == {
        "event": shown,
        "client_id": shown,
        "ids": [shown, [shown]],
        "by": {shown: 1},
        "port": 1,
    }


def test_a_traceback_keeps_its_lines() -> None:
    event = {TRACEBACK: "Traceback:\n  ValueError: \x1b[2J"}
    assert escape_controls(None, "error", event) == {
        TRACEBACK: "Traceback:\n  ValueError: \\x1b[2J"
    }

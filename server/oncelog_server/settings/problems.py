"""Settings that cannot be used, and their values as an error may show them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from oncelog_protocol.secret import HIDDEN, displayed
from oncelog_server.settings.accepted import ACCEPTED
from oncelog_server.settings.listener_settings import listener_setting
from oncelog_server.settings.model import HONOURED
from oncelog_server.settings.refused import REFUSED
from oncelog_server.settings.sources import SettingAssignment
from oncelog_server.settings.table import Kind, Setting, Unhonoured, format_value


class SettingProblem(msgspec.Struct, frozen=True):
    """A setting with an invalid value. `name` is empty for a source that cannot be read, and `text`
    is None for a setting without a value."""

    name: str
    text: str | None
    source: str
    reason: str

    def __str__(self) -> str:
        if not self.name:
            return f"{self.source}: {self.reason}"
        if self.text is None:
            return f"{self.name} ({self.source}): {self.reason}"
        return f"{self.name}={self.text} ({self.source}): {self.reason}"


class SettingsError(ValueError):
    """All problems of the settings together."""

    def __init__(self, problems: Sequence[SettingProblem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


def problem_of(assignment: SettingAssignment, reason: str) -> SettingProblem:
    """Return the problem. The reason for a known setting that is no password may quote the value.
    So this reason is replaced if a config provider gave the value."""
    source = assignment.source
    if assignment.provider:
        source += f", config provider {assignment.provider}"
        part = listener_setting(assignment.name)
        row = HONOURED.get(assignment.name) if part is None else part.row
        if row is not None and row.kind is not Kind.PASSWORD:
            reason = "the provider's value is not valid"
    return SettingProblem(assignment.name, _shown_text(assignment), source, reason)


def problem_of_default(name: str, reason: str) -> SettingProblem:
    """Return the problem of a setting that is not set, with its default if it has one."""
    row = HONOURED.get(name)
    text = None if row is None else format_value(row.kind, row.default)
    if not text:
        return SettingProblem(name, None, "not set", reason)
    return SettingProblem(name, text, "default", reason)


def _shown_text(assignment: SettingAssignment) -> str:
    """Return the value as an error may show it.

    Passwords are hidden. Unknown settings are hidden if their name looks like that of a password:
    `listener.name.<name>.sasl.jaas.config`, or a misspelled name.
    """
    row = _row(assignment.name)
    if assignment.provider:
        hidden = True
    elif row is None:
        hidden = displayed(assignment.name, assignment.text) == HIDDEN
    else:
        hidden = row.kind is Kind.PASSWORD
    return HIDDEN if hidden else assignment.text


def given_text(assignment: SettingAssignment) -> str:
    """Return the text of a known setting, hidden if it is a password."""
    row = _row(assignment.name)
    return HIDDEN if row is not None and row.kind is Kind.PASSWORD else assignment.text


def _row(name: str) -> Setting | Unhonoured | None:
    return HONOURED.get(name) or REFUSED.get(name) or ACCEPTED.get(name)

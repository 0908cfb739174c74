"""Load the settings from all sources.

The sources are defaults, server.properties, KAFKA_*, ONCELOG_* and --set; a later one overrides an
earlier one. The tables are in settings/: every broker setting of Kafka is in exactly one of
HONOURED, ACCEPTED (without effect) and REFUSED.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from oncelog_server.secret_sources import SecretSources
from oncelog_server.settings.accepted import ACCEPTED, ALIASES, GONE
from oncelog_server.settings.contradictions import contradictions
from oncelog_server.settings.image_variables import SECRETS_FOLDER
from oncelog_server.settings.listener_settings import ListenerSetting, listener_setting
from oncelog_server.settings.model import HONOURED, KNOWN, Settings
from oncelog_server.settings.problems import (
    SettingProblem,
    SettingsError,
    given_text,
    problem_of,
    problem_of_default,
)
from oncelog_server.settings.refused import REFUSED
from oncelog_server.settings.sources import (
    FROM_ARGUMENT,
    SettingAssignment,
    UnreadableSource,
    from_argument,
    from_environment,
    from_properties,
)
from oncelog_server.settings.table import (
    InvalidValue,
    SettingValue,
    Unhonoured,
    check_length,
    parse_value,
)

if TYPE_CHECKING:
    from oncelog_server.settings.login_file import LoginFile

__all__ = ["Loaded", "SettingProblem", "Settings", "SettingsError", "load_settings"]


class Loaded(msgspec.Struct, frozen=True):
    """The loaded settings.

    `warnings` are lines to print. `without_effect` are the names of given settings in ACCEPTED.
    """

    settings: Settings
    warnings: tuple[str, ...]
    without_effect: tuple[str, ...]


def load_settings(
    *,
    config_file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    assignments: Sequence[str] = (),
    port: int | None = None,
    data: str | None = None,
    brokers: int | None = None,
    secrets_folder: str = SECRETS_FOLDER,
) -> Loaded:
    """Return the settings from all sources.

    `port`, `data` and `brokers` are the options of `oncelog serve`. They override a file and the
    environment, and a --set of the same setting is an error. `secrets_folder` has the files that
    variables of Kafka's container images name. Raises SettingsError with every problem found,
    OSError if the file cannot be read.
    """
    given: list[SettingAssignment] = []
    unreadable: list[SettingProblem] = []
    secrets = SecretSources(environment or {}, unreadable)
    if config_file is not None:
        try:
            given += _aliases_first(_read(config_file))
        except UnreadableSource as error:
            unreadable.append(SettingProblem("", "", error.source, error.reason))
    given += from_environment(secrets.environment(secrets_folder), KNOWN)
    for argument in assignments:
        try:
            given.append(from_argument(argument))
        except UnreadableSource as error:
            unreadable.append(SettingProblem("", "", error.source, error.reason))
    if port is not None:
        unreadable += _set_twice(given, ("listeners",), f"--port {port}")
        given.append(SettingAssignment("listeners", f"PLAINTEXT://:{port}", "--port"))
    if data is not None:
        unreadable += _set_twice(given, ("log.dirs", "log.dir"), f"--data {data}")
        given.append(SettingAssignment("log.dirs", data, "--data"))
    if brokers is not None:
        unreadable += _set_twice(given, ("oncelog.brokers",), f"--brokers {brokers}")
        given.append(SettingAssignment("oncelog.brokers", str(brokers), "--brokers"))
    resolved, notes = secrets.with_values_of_providers(given)
    loaded = settings_of(_without_stale_advertised(resolved), unreadable, secrets.login_file())
    notes += [*loaded.warnings, *secrets.readable_by_others(loaded.settings)]
    return msgspec.structs.replace(loaded, warnings=tuple(notes))


def settings_of(
    given: Sequence[SettingAssignment],
    unreadable: Sequence[SettingProblem] = (),
    login_file: LoginFile | None = None,
) -> Loaded:
    """Return the settings of assignments. A later one overrides an earlier one. `login_file` is the
    JAAS file of the broker.

    Raises SettingsError with every problem, those of `unreadable` sources included.
    """
    warnings: list[str] = []
    problems = list(unreadable)
    effective: dict[str, SettingAssignment] = {}
    of_listeners: dict[ListenerSetting, SettingAssignment] = {}
    for assignment in given:
        part = listener_setting(assignment.name)
        if part is not None:
            of_listeners[part] = assignment
            continue
        name = ALIASES.get(assignment.name)
        if name is not None:
            warnings.append(f"{assignment.name} ({assignment.source}): the name is now {name}")
            effective[name] = msgspec.structs.replace(assignment, name=name)
        elif assignment.name in KNOWN:
            effective[assignment.name] = assignment
        else:
            _judge_unknown(assignment, warnings, problems)
    values: dict[str, Any] = {}
    for name, assignment in effective.items():
        try:
            if name in HONOURED:
                row = HONOURED[name]
                values[row.attribute] = parse_value(row, assignment.text)
            elif name in REFUSED:
                _refuse_unless_default(REFUSED[name], assignment.text)
            else:
                check_length(name, assignment.text)
        except InvalidValue as error:
            problems.append(problem_of(assignment, str(error)))
    own = _listener_values(of_listeners, warnings, problems)
    for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        # As in Kafka (KafkaConfig.populateSynonyms), each of the two names sets the other.
        number = values.get(HONOURED[name].attribute, -1)
        if number != -1 and other not in effective:
            effective[other] = msgspec.structs.replace(effective[name], name=other)
            values[HONOURED[other].attribute] = number
    texts = {name: given_text(assignment) for name, assignment in effective.items()}
    settings = Settings(**values, given=texts, of_listeners=own, login_file=login_file)
    named = effective | {assignment.name: assignment for assignment in of_listeners.values()}
    problems += [
        problem_of(named[name], reason) if name in named else problem_of_default(name, reason)
        for name, reason in contradictions(settings)
        if not any(problem.name == name for problem in problems)
    ]
    if problems:
        raise SettingsError(problems)
    without_effect = tuple(name for name in effective if name in ACCEPTED)
    return Loaded(settings, tuple(warnings), without_effect)


def _listener_values(
    assignments: Mapping[ListenerSetting, SettingAssignment],
    warnings: list[str],
    problems: list[SettingProblem],
) -> dict[ListenerSetting, SettingValue]:
    """Return the values of the settings of single listeners. Add those without effect to
    `warnings`, the invalid ones to `problems`."""
    values: dict[ListenerSetting, SettingValue] = {}
    for setting, assignment in assignments.items():
        try:
            row = setting.row
            if row is not None:
                values[setting] = parse_value(row, assignment.text)
            elif setting.name in REFUSED:
                _refuse_unless_default(REFUSED[setting.name], assignment.text)
            elif setting.name in ACCEPTED:
                reason = f"no effect: {ACCEPTED[setting.name].reason}"
                warnings.append(f"{assignment.name} ({assignment.source}): {reason}")
            else:
                raise InvalidValue("is not a setting that a single listener can have")
        except InvalidValue as error:
            problems.append(problem_of(assignment, str(error)))
    return values


def nearest_name(name: str) -> str | None:
    """Return the known setting with the most similar name, None if none is similar."""
    from difflib import get_close_matches

    found = get_close_matches(name, sorted(KNOWN), n=1, cutoff=0.75)
    return found[0] if found else None


def _judge_unknown(
    assignment: SettingAssignment, warnings: list[str], problems: list[SettingProblem]
) -> None:
    """Add an unknown name to `problems`.

    A name that an older Kafka had is added to `warnings` instead. So is a name from the
    environment, because other programs have variables there too.
    """
    name = assignment.name
    if re.fullmatch(GONE, name):
        warnings.append(f"{name} ({assignment.source}): Kafka 4 has no such setting, ignored")
        return
    near = nearest_name(name)
    reason = f"unknown setting; did you mean {near}?" if near else "unknown setting"
    problem = problem_of(assignment, reason)
    if assignment.source.startswith("environment"):
        warnings.append(f"ignored: {problem}")
    else:
        problems.append(problem)


def _refuse_unless_default(row: Unhonoured, text: str) -> None:
    text = text.strip()
    if text not in ("", row.default) and text.lower() != (row.default or "").lower():
        raise InvalidValue(f"refused: {row.reason}")


def _without_stale_advertised(given: Sequence[SettingAssignment]) -> list[SettingAssignment]:
    """Return the assignments without stale `advertised.listeners`. The setting is stale if
    its source also sets `listeners`, and a later source overrides these listeners. Kafka's
    container image treats its own defaults likewise.
    """
    *earlier, last = [
        "",
        *(assignment.source for assignment in given if assignment.name == "listeners"),
    ]
    replaced = set(earlier) - {last}
    return [
        assignment
        for assignment in given
        if assignment.name != "advertised.listeners" or assignment.source not in replaced
    ]


def _set_twice(
    given: Sequence[SettingAssignment], names: Sequence[str], option: str
) -> list[SettingProblem]:
    """Return a problem for each --set of a setting that an option sets too.

    Both are on the command line, so neither overrides the other.
    """
    return [
        problem_of(assignment, f"{option} sets it too: give only one of the two")
        for assignment in given
        if assignment.source == FROM_ARGUMENT and assignment.name in names
    ]


def _read(file: Path) -> list[SettingAssignment]:
    try:
        return from_properties(file.read_text(encoding="utf-8-sig"), str(file))
    except UnicodeDecodeError as error:
        raise UnreadableSource(str(file), str(error)) from error


def _aliases_first(assignments: list[SettingAssignment]) -> list[SettingAssignment]:
    """Return the assignments of a file with the old names first.

    So Kafka's current name overrides KIP-98's, whatever their order in the file.
    """
    return sorted(assignments, key=lambda assignment: assignment.name not in ALIASES)

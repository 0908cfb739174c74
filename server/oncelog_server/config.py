"""Load the settings from all sources.

The sources are defaults, server.properties, KAFKA_*, ONCELOG_* and --set; a later one overrides an
earlier one. The tables are in settings/: every broker setting of Kafka is in exactly one of
HONOURED, ACCEPTED (without effect) and REFUSED.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from oncelog_protocol.secret import HIDDEN, displayed
from oncelog_server.secret_files import SecretFiles, others_may_read
from oncelog_server.security.protocols import SecurityProtocol
from oncelog_server.settings.accepted import ACCEPTED, ALIASES, GONE
from oncelog_server.settings.image_variables import (
    SECRETS_FOLDER,
    UnreadablePassword,
    login_file_path,
    with_secret_files,
)
from oncelog_server.settings.listener_settings import ListenerSetting, listener_setting
from oncelog_server.settings.listeners import (
    InvalidConnectionLimits,
    InvalidListeners,
    ListenerAddress,
    connection_limits,
    listeners_of,
    shares_an_address,
)
from oncelog_server.settings.model import HONOURED, KNOWN, Settings
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
    Kind,
    Setting,
    SettingValue,
    Unhonoured,
    check_length,
    parse_value,
)

if TYPE_CHECKING:
    from oncelog_server.settings.login_file import LoginFile

__all__ = ["Loaded", "SettingProblem", "Settings", "SettingsError", "load_settings"]


class SettingProblem(msgspec.Struct, frozen=True):
    """A setting with an invalid value. `name` is empty for a source that cannot be read."""

    name: str
    text: str
    source: str
    reason: str

    def __str__(self) -> str:
        if not self.name:
            return f"{self.source}: {self.reason}"
        return f"{self.name}={self.text} ({self.source}): {self.reason}"


class SettingsError(ValueError):
    """All problems of the settings together."""

    def __init__(self, problems: Sequence[SettingProblem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


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
    secrets_folder: str = SECRETS_FOLDER,
) -> Loaded:
    """Return the settings from all sources.

    `port` and `data` are the options of `oncelog serve`. They override a file and the environment,
    and exclude a --set of the same setting. `secrets_folder` has the files that variables of
    Kafka's images name. Raises SettingsError with every problem found, OSError if the file cannot
    be read.
    """
    given: list[SettingAssignment] = []
    unreadable: list[SettingProblem] = []
    files = SecretFiles(environment or {})
    if config_file is not None:
        try:
            given += _aliases_first(_read(config_file))
        except UnreadableSource as error:
            unreadable.append(SettingProblem("", "", error.source, error.reason))
    given += from_environment(_with_secrets(files, secrets_folder, unreadable), KNOWN)
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
    given, notes = _with_values_of_providers(given, files, unreadable)
    loaded = settings_of(_without_stale_advertised(given), unreadable, _login_file(files))
    notes += [*loaded.warnings, *_readable_by_others(loaded.settings, files)]
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
            problems.append(_problem(assignment, str(error)))
    own = _listener_values(of_listeners, warnings, problems)
    if values.get("broker_id", -1) != -1:
        values.setdefault("node_id", values["broker_id"])
    texts = {name: _given_text(assignment) for name, assignment in effective.items()}
    settings = Settings(**values, given=texts, of_listeners=own, login_file=login_file)
    named = effective | {assignment.name: assignment for assignment in of_listeners.values()}
    problems += [
        _problem(named.get(name) or SettingAssignment(name, "", "default"), reason)
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
            problems.append(_problem(assignment, str(error)))
    return values


def contradictions(settings: Settings) -> list[tuple[str, str]]:
    """Return (setting, reason) for settings that are valid alone but contradict others.

    Most of the rules are those of KafkaConfig.
    """
    found: list[tuple[str, str]] = []
    try:
        listeners = listeners_of(settings)
    except InvalidListeners as error:
        found.append((error.setting, str(error)))
    else:
        found += _security_problems(settings, listeners)
        known = {listener.name for listener in listeners} | {
            name.upper() for name in settings.controller_listener_names
        }
        found += [
            (setting.full_name, f"there is no listener {setting.listener}")
            for setting in settings.of_listeners
            if setting.listener not in known
        ]
    try:
        connection_limits(settings.max_connections_per_ip_overrides)
    except InvalidConnectionLimits as error:
        found.append(("max.connections.per.ip.overrides", str(error)))
    metrics_port = settings.oncelog_metrics_port
    taken = [
        client_listener
        for client_listener in _client_listeners(settings)
        if client_listener.port == metrics_port > 0
    ]
    for listener in taken:
        if shares_an_address(listener.host, settings.oncelog_metrics_host):
            reason = f"is also the port of listener {listener.name}: give each its own port"
            found.append(("oncelog.metrics.port", reason))
    for name in ("controller.quorum.voters", "controller.quorum.bootstrap.servers"):
        nodes = [node for node in settings.given.get(name, "").split(",") if node.strip()]
        if len(nodes) > 1:
            reason = (
                f"names {len(nodes)} nodes, but oncelog is a single broker for now. Each of these "
                "nodes would be a cluster of its own"
            )
            found.append((name, reason))
    if settings.process_roles and "broker" not in settings.process_roles:
        found.append(("process.roles", "this process is a broker, and can be nothing else"))
    if settings.broker_id not in (-1, settings.node_id) and "node.id" in settings.given:
        found.append(("broker.id", f"must be the same as node.id, which is {settings.node_id}"))
    directories = settings.log_dirs or settings.log_dir
    if len(directories) != 1:
        name = "log.dirs" if settings.log_dirs is not None else "log.dir"
        found.append((name, "exactly one data directory can be used for now"))
    if settings.group_min_session_timeout_ms > settings.group_max_session_timeout_ms:
        found.append(("group.min.session.timeout.ms", "is above group.max.session.timeout.ms"))
    if 0 < settings.queued_max_request_bytes < settings.socket_request_max_bytes:
        found.append(("queued.max.request.bytes", "is below socket.request.max.bytes"))
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if getattr(settings, name.replace(".", "_")) == 0:
            found.append((name, "must be -1 (unlimited) or at least 1"))
    return found


def _security_problems(
    settings: Settings, listeners: tuple[ListenerAddress, ...]
) -> list[tuple[str, str]]:
    if all(listener.protocol is SecurityProtocol.PLAINTEXT for listener in listeners):
        return []
    # A start without TLS and SASL does not import this module.
    from oncelog_server.settings.listener_security import security_problems

    return [(found.setting, str(found)) for found in security_problems(settings, listeners)]


def _client_listeners(settings: Settings) -> tuple[ListenerAddress, ...]:
    """Return the listeners, none if their settings are invalid. `contradictions` reports invalid
    ones."""
    try:
        return listeners_of(settings)
    except InvalidListeners:
        return ()


def nearest_name(name: str) -> str | None:
    """Return the known setting with the most similar name, None if none is similar."""
    found = difflib.get_close_matches(name, sorted(KNOWN), n=1, cutoff=0.75)
    return found[0] if found else None


def _judge_unknown(
    assignment: SettingAssignment, warnings: list[str], problems: list[SettingProblem]
) -> None:
    """Add an unknown name to `problems`.

    A name that an older Kafka had is added to `warnings` instead. So is a name from the
    environment, because other programs have variables there too.
    """
    name = assignment.name
    if GONE.fullmatch(name):
        warnings.append(f"{name} ({assignment.source}): Kafka 4 has no such setting, ignored")
        return
    near = nearest_name(name)
    reason = f"unknown setting; did you mean {near}?" if near else "unknown setting"
    problem = _problem(assignment, reason)
    if assignment.source.startswith("environment"):
        warnings.append(f"ignored: {problem}")
    else:
        problems.append(problem)


def _refuse_unless_default(row: Unhonoured, text: str) -> None:
    text = text.strip()
    if text not in ("", row.default) and text.lower() != (row.default or "").lower():
        raise InvalidValue(f"refused: {row.reason}")


def _problem(assignment: SettingAssignment, reason: str) -> SettingProblem:
    """Return the problem. Reasons of other kinds than passwords quote the value, so they are not
    shown for a value of a config provider."""
    source = assignment.source
    if assignment.provider:
        source += f", config provider {assignment.provider}"
        part = listener_setting(assignment.name)
        row = HONOURED.get(assignment.name) if part is None else part.row
        if row is not None and row.kind is not Kind.PASSWORD:
            reason = "the provider's value is not valid"
    return SettingProblem(assignment.name, _shown_text(assignment), source, reason)


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


def _given_text(assignment: SettingAssignment) -> str:
    """Return the text of a known setting, hidden if it is a password."""
    row = _row(assignment.name)
    return HIDDEN if row is not None and row.kind is Kind.PASSWORD else assignment.text


def _row(name: str) -> Setting | Unhonoured | None:
    return HONOURED.get(name) or REFUSED.get(name) or ACCEPTED.get(name)


def _without_stale_advertised(given: list[SettingAssignment]) -> list[SettingAssignment]:
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
        _problem(assignment, f"{option} sets it too: give only one of the two")
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


def _with_secrets(
    files: SecretFiles, folder: str, unreadable: list[SettingProblem]
) -> Mapping[str, str]:
    """Return the environment with stores and passwords from the files that variables of Kafka's
    images name. Add a file that cannot be read to `unreadable`."""
    try:
        return with_secret_files(files.environment, files.text, folder)
    except UnreadablePassword as error:
        source = f"environment variable {error.variable}"
        unreadable.append(SettingProblem("", "", source, error.reason))
        return files.environment


def _with_values_of_providers(
    given: list[SettingAssignment], files: SecretFiles, problems: list[SettingProblem]
) -> tuple[list[SettingAssignment], list[str]]:
    """Return the assignments with the values of config providers, and lines to print."""
    if not any("${" in item.text or item.name.startswith("config.providers") for item in given):
        return given, []
    # A start without providers does not import this module.
    from oncelog_server.settings.config_providers import resolve

    resolved = resolve(given, files)
    problems += [_problem(assignment, reason) for assignment, reason in resolved.problems]
    return resolved.assignments, resolved.warnings


def _login_file(files: SecretFiles) -> LoginFile | None:
    """Return the JAAS file that KAFKA_OPTS names, None if it names none."""
    path = login_file_path(files.environment)
    if path is None:
        return None
    from oncelog_server.settings.login_file import login_file, unreadable_login_file

    try:
        return login_file(path, files.text(path))
    except OSError as error:
        return unreadable_login_file(path, error.strerror or str(error))
    except ValueError:
        return unreadable_login_file(path, "it is too large, or not text in UTF-8")


def _readable_by_others(settings: Settings, files: SecretFiles) -> list[str]:
    """Return a line for each file with a key or passwords that other users may read."""
    paths = files.readable_by_others
    for listener in _client_listeners(settings):
        if listener.protocol.has_tls:
            store = settings.of_listener(listener.name).ssl_keystore_location
            if store is not None and others_may_read(store):
                paths.append(store)
    return [
        f"other users may read {path}, which has a key or passwords: chmod 600 {path}"
        for path in dict.fromkeys(paths)
    ]

"""Config providers: `${file:PATH:KEY}`, `${dir:PATH:FILE}` and `${env:NAME}` in the values of
settings (KIP-297, KIP-421, KIP-887).

The variables are those of Kafka's ConfigTransformer, and the providers have Kafka's class names.
Kafka leaves a variable without a value in place. oncelog refuses to start instead: otherwise the
text of the variable could become a password. Pure: the caller reads files and environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from oncelog_server.security.java_pattern import JavaPattern, TooCostly
from oncelog_server.security.java_pattern_syntax import JavaPatternError
from oncelog_server.settings.sources import LookupFailed, SettingAssignment

NAMES: Final = "config.providers"
PREFIX: Final = f"{NAMES}."
ALLOWED_PATHS: Final = "allowed.paths"
ALLOWLIST: Final = "allowlist.pattern"
_CLASS: Final = ".class"
_PARAM: Final = ".param."
# ${provider:[path:]key}, as in ConfigTransformer.
_VARIABLE: Final = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
# An unknown provider's name is shown only if it has this form: a password may contain text that
# looks like a variable.
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class ProviderClass(StrEnum):
    """Kafka's providers, by the names of their classes."""

    FILE = "org.apache.kafka.common.config.provider.FileConfigProvider"
    DIRECTORY = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
    ENVIRONMENT = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"


# The parameter that each class has.
_PARAMETERS: Final = {
    ProviderClass.FILE: ALLOWED_PATHS,
    ProviderClass.DIRECTORY: ALLOWED_PATHS,
    ProviderClass.ENVIRONMENT: ALLOWLIST,
}


class Source(Protocol):
    """The files and variables that providers read. The methods raise LookupFailed if a file cannot
    be read."""

    def exists(self, path: str) -> bool: ...

    def properties(self, path: str) -> Mapping[str, str]: ...

    def file_of(self, folder: str, name: str) -> str: ...

    @property
    def environment(self) -> Mapping[str, str]: ...


class ProviderProblem(NamedTuple):
    """A setting that cannot be used because of a provider, and the reason."""

    assignment: SettingAssignment
    reason: str


class Resolved(NamedTuple):
    """The assignments with values in place of variables, without the settings of the providers
    themselves; the problems; lines to print."""

    assignments: list[SettingAssignment]
    problems: list[ProviderProblem]
    warnings: list[str]


class Provider(NamedTuple):
    """A provider. `allowed_paths` are absolute, None allows all. `allowlist` must match the whole
    name of a variable, None allows all."""

    name: str
    kind: ProviderClass
    allowed_paths: tuple[str, ...] | None = None
    allowlist: JavaPattern | None = None

    def value_of(self, path: str, key: str, source: Source) -> str:
        """Return the value of a variable. Raises LookupFailed."""
        if self.kind is ProviderClass.ENVIRONMENT:
            return self._of_environment(path, key, source)
        if not path:
            raise LookupFailed(f"{key!r} has no path: the form is ${{{self.name}:PATH:KEY}}")
        path = self._allowed(path)
        if self.kind is ProviderClass.FILE:
            value = source.properties(path).get(key)
            if value is None:
                raise LookupFailed(f"{path} has no key {key!r}")
            return value
        if "/" in key or key in ("", ".", ".."):
            raise LookupFailed(f"{key!r} is not the name of a file in {path}")
        return source.file_of(path, key)

    def _of_environment(self, path: str, key: str, source: Source) -> str:
        if path:
            raise LookupFailed(f"a path is not supported: the form is ${{{self.name}:NAME}}")
        if self.allowlist is not None and not _matches(self.allowlist, key):
            raise LookupFailed(f"{ALLOWLIST} does not allow the environment variable {key!r}")
        if key not in source.environment:
            raise LookupFailed(f"there is no environment variable {key!r}")
        return source.environment[key]

    def _allowed(self, path: str) -> str:
        if self.allowed_paths is None:
            return path
        normal = _normal(path)
        for allowed in self.allowed_paths:
            if normal == allowed or normal.startswith(f"{allowed.rstrip('/')}/"):
                return normal
        raise LookupFailed(f"{ALLOWED_PATHS} does not allow {path}")


def resolve(given: Sequence[SettingAssignment], source: Source) -> Resolved:
    """Return the assignments with the values of providers in place of variables.

    If a provider's setting has several assignments, the last one counts. A variable of an unknown
    provider stays as it is, as in Kafka.
    """
    own = {item.name: item for item in given if item.name == NAMES or item.name.startswith(PREFIX)}
    problems: list[ProviderProblem] = []
    providers = _providers(own, source, problems)
    resolved = Resolved([], problems, [])
    for assignment in given:
        if assignment.name == NAMES:
            resolved.assignments.append(assignment)
        elif assignment.name not in own and "${" in assignment.text:
            _resolve(assignment, providers, source, resolved)
        elif assignment.name not in own:
            resolved.assignments.append(assignment)
    return resolved


def _resolve(
    assignment: SettingAssignment,
    providers: Mapping[str, Provider],
    source: Source,
    resolved: Resolved,
) -> None:
    """Add the assignment with values, or a problem."""
    used: list[str] = []
    unknown: list[str] = []

    def value_of(variable: re.Match[str]) -> str:
        name, path, key = variable[1], variable[3] or "", variable[4]
        provider = providers.get(name)
        if provider is None:
            unknown.append(name)
            return variable[0]
        used.append(name)
        try:
            return provider.value_of(path, key, source)
        except LookupFailed as error:
            raise LookupFailed(f"config provider {name}: {error}") from None

    try:
        text = _VARIABLE.sub(value_of, assignment.text)
    except LookupFailed as error:
        resolved.problems.append(ProviderProblem(assignment, str(error)))
        return
    for name in dict.fromkeys(unknown):
        shown = f"${{{name}:…}}" if _NAME.fullmatch(name) else "a variable"
        resolved.warnings.append(
            f"{assignment.name} ({assignment.source}): {shown} stays as it is, because {NAMES} "
            "names no such provider"
        )
    if used:
        assignment = SettingAssignment(
            assignment.name, text, assignment.source, ", ".join(dict.fromkeys(used))
        )
    resolved.assignments.append(assignment)


def _providers(
    own: Mapping[str, SettingAssignment], source: Source, problems: list[ProviderProblem]
) -> dict[str, Provider]:
    """Return the providers by name. Add what is wrong with their settings to `problems`."""
    names = [name.strip() for name in own[NAMES].text.split(",")] if NAMES in own else []
    providers: dict[str, Provider] = {}
    known: set[str] = {NAMES}
    for name in filter(None, names):
        class_name, parameters = f"{PREFIX}{name}{_CLASS}", f"{PREFIX}{name}{_PARAM}"
        known.add(class_name)
        given = {key: item for key, item in own.items() if key.startswith(parameters)}
        known.update(given)
        if class_name not in own:
            problems.append(ProviderProblem(own[NAMES], f"{class_name} is not set"))
            continue
        text = own[class_name].text.strip()
        if text not in ProviderClass.__members__.values():
            classes = ", ".join(ProviderClass)
            problems.append(ProviderProblem(own[class_name], f"the classes are {classes}"))
            continue
        provider = Provider(name, ProviderClass(text))
        for key, item in given.items():
            try:
                provider = _with(provider, key.removeprefix(parameters), item.text, source)
            except ValueError as error:
                problems.append(ProviderProblem(item, str(error)))
        providers[name] = provider
    for key in sorted(own.keys() - known):
        problems.append(ProviderProblem(own[key], f"is the setting of no provider in {NAMES}"))
    return providers


def _with(provider: Provider, parameter: str, text: str, source: Source) -> Provider:
    """Return the provider with a parameter. Raises ValueError, worded as in Kafka's AllowedPaths
    for a path."""
    if parameter != _PARAMETERS[provider.kind]:
        raise ValueError(f"the only parameter of this class is {_PARAMETERS[provider.kind]}")
    if parameter == ALLOWLIST:
        try:
            return provider._replace(allowlist=JavaPattern(text))
        except JavaPatternError as error:
            raise ValueError(str(error)) from None
    paths = tuple(_normal(path) for path in text.split(",")) if text else None
    for path in paths or ():
        if not path.startswith("/"):
            raise ValueError(f"Path {path} is not absolute")
        if not source.exists(path):
            raise ValueError(f"Path {path} does not exist")
    return provider._replace(allowed_paths=paths)


def _normal(path: str) -> str:
    """Return the path without `.`, `..` and doubled slashes, as Java's Path.normalize. Links are
    not followed."""
    is_absolute = path.startswith("/")
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if parts and parts[-1] != "..":
                parts.pop()
            elif not is_absolute:
                parts.append(part)
        elif part not in ("", "."):
            parts.append(part)
    return ("/" if is_absolute else "") + "/".join(parts)


def _matches(pattern: JavaPattern, name: str) -> bool:
    try:
        return pattern.full_match(name)
    except TooCostly:
        return False

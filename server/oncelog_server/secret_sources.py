"""The sources of secrets at a start: config providers, the files that variables of Kafka's
container images name, and the JAAS file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from oncelog_server.secret_files import SecretFiles, others_may_read
from oncelog_server.settings.image_variables import (
    UnreadablePassword,
    login_file_path,
    with_secret_files,
)
from oncelog_server.settings.listeners import client_listeners
from oncelog_server.settings.model import Settings
from oncelog_server.settings.problems import SettingProblem, problem_of
from oncelog_server.settings.sources import SettingAssignment

if TYPE_CHECKING:
    from oncelog_server.settings.login_file import LoginFile


class SecretSources:
    """The sources of one start, with the environment of the process. Adds what cannot be read to
    `problems`."""

    def __init__(self, environment: Mapping[str, str], problems: list[SettingProblem]) -> None:
        self._files = SecretFiles(environment)
        self._problems = problems

    def environment(self, folder: str) -> Mapping[str, str]:
        """Return the environment with stores and passwords from the files in `folder` that
        variables of Kafka's container images name."""
        environment = self._files.environment
        try:
            return with_secret_files(environment, self._files.text, folder)
        except UnreadablePassword as error:
            source = f"environment variable {error.variable}"
            self._problems.append(SettingProblem("", "", source, error.reason))
            return environment

    def with_values_of_providers(
        self, given: Sequence[SettingAssignment]
    ) -> tuple[Sequence[SettingAssignment], list[str]]:
        """Return the assignments with the values of config providers, and lines to print."""
        if not any("${" in item.text or item.name.startswith("config.providers") for item in given):
            return given, []
        # A start without providers does not import this module.
        from oncelog_server.settings.config_providers import resolve

        resolved = resolve(given, self._files)
        self._problems += [
            problem_of(assignment, reason) for assignment, reason in resolved.problems
        ]
        return resolved.assignments, resolved.warnings

    def login_file(self) -> LoginFile | None:
        """Return the JAAS file that KAFKA_OPTS names, None if it names none."""
        path = login_file_path(self._files.environment)
        if path is None:
            return None
        from oncelog_server.settings.login_file import login_file, unreadable_login_file

        try:
            return login_file(path, self._files.text(path))
        except OSError as error:
            return unreadable_login_file(path, error.strerror or str(error))
        except ValueError:
            return unreadable_login_file(path, "it is too large, or not text in UTF-8")

    def readable_by_others(self, settings: Settings) -> list[str]:
        """Return a line for each file with a key or passwords that other users may read."""
        paths = self._files.readable_by_others
        for listener in client_listeners(settings):
            if listener.protocol.has_tls:
                store = settings.of_listener(listener.name).ssl_keystore_location
                if store is not None and others_may_read(store):
                    paths.append(store)
        return [
            f"other users may read {path}, which has a key or passwords: chmod 600 {path}"
            for path in dict.fromkeys(paths)
        ]

"""Reads the files that settings name: those of config providers, files with passwords, and the JAAS
file. Remembers which of them other users may read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from oncelog_server.operating_system.file_modes import OF_OTHERS
from oncelog_server.settings.sources import LookupFailed, UnreadableSource, properties_of

# A secret takes a few KiB. A wrong path must not fill the memory.
MOST_BYTES: Final = 1 << 20


class SecretFiles:
    """The source of config providers, and of the variables of Kafka's container images. A file is
    read once, so that all settings get values of the same version."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self._texts: dict[str, str] = {}

    def text(self, path: str) -> str:
        """Return the text of a file. Raises OSError, and ValueError if it is too large or not text
        in UTF-8."""
        if path not in self._texts:
            with Path(path).open("rb") as file:
                data = file.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise ValueError("too large")
            self._texts[path] = data.decode()
        return self._texts[path]

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def properties(self, path: str) -> Mapping[str, str]:
        """Return the entries of a properties file. Raises LookupFailed."""
        try:
            return properties_of(self._looked_up(path), path)
        except UnreadableSource:
            # The message of the parser may quote the file, and so a secret.
            raise LookupFailed(f"{path} is not a properties file") from None

    def file_of(self, folder: str, name: str) -> str:
        """Return the text of a file in a folder. Raises LookupFailed."""
        if not os.path.isdir(folder):
            raise LookupFailed(f"{folder} is not a directory")
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            raise LookupFailed(f"{folder} has no file {name!r}")
        return self._looked_up(path)

    @property
    def readable_by_others(self) -> list[str]:
        """Return the paths of the files read so far that other users may read."""
        return [path for path in self._texts if others_may_read(path)]

    def _looked_up(self, path: str) -> str:
        try:
            return self.text(path)
        except OSError as error:
            raise LookupFailed(f"{path} cannot be read: {error.strerror}") from None
        except ValueError:
            raise LookupFailed(f"{path} is too large, or not text in UTF-8") from None


def others_may_read(path: str) -> bool:
    """Return True if a file exists and its mode gives rights to its group or to all users."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return bool(stat.S_IMODE(mode) & OF_OTHERS)

"""The arguments of every kind of copier. A copier is a process that copies an input topic to an
output topic."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Final, NamedTuple

from oncelog_client.core.security_settings import SecuritySettings

PARTITIONS: Final = 9
MAX_RECORDS: Final = 40
ABORT_PROBABILITY: Final = 0.1
SESSION_MS: Final = 1_500
FATAL_EXIT_CODE: Final = 3
SLEEP: Final = signal.SIGUSR1


class Work(NamedTuple):
    """The arguments. `number`: the number of the process. `timeout_ms`: its transaction timeout.
    `session_ms`: the session timeout of its consumer. `login`: a JSON file with the settings of
    security of our clients, none if empty."""

    address: str
    name: str
    number: int
    timeout_ms: int = 3_000
    session_ms: int = SESSION_MS
    login: str = ""

    @property
    def security(self) -> SecuritySettings:
        """Return the arguments of security of our clients."""
        if not self.login:
            return {}
        settings: SecuritySettings = json.loads(Path(self.login).read_text())
        return settings

    @property
    def input(self) -> str:
        return f"{self.name}-in"

    @property
    def output(self) -> str:
        return f"{self.name}-out"

    @property
    def process_id(self) -> str:
        """Return the transactional id of a producer that serves the whole process."""
        return f"{self.name}-process-{self.number}"

    def task_id(self, partition: int) -> str:
        """Return the transactional id of an input partition's producer. It is the same in every
        process."""
        return f"{self.name}-task-{partition}"

"""The setups of brokers: each is for some of the loads. Brokers of one setup run at the same
time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks import acls
from benchmarks.tls_brokers import TlsKafka, TlsOncelog, tls_files
from tests.harness.broker import Oncelog
from tests.harness.kafka.kafka import Kafka


def _nothing(address: str) -> None:
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """`settings` are those of all brokers, beyond the settings that every broker of the bench has.
    `complete` is called with the address of each started broker."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    has_tls: bool = False
    complete: Callable[[str], None] = _nothing

    def oncelog(
        self,
        directory: Path,
        settings: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
    ) -> Oncelog:
        """Return an oncelog with data in `directory`. It is not started."""
        every = {**settings, **self.settings}
        if self.has_tls:
            return TlsOncelog(directory, every, environment, tls_files(directory.parent))
        return Oncelog(directory, every, environment)

    def kafka(
        self, directory: Path, settings: Mapping[str, str], jvm_options: Sequence[str]
    ) -> Kafka:
        """Return an Apache Kafka with data in `directory`. It is not started. Raises
        KafkaUnavailable without Java or Kafka's jars."""
        every = {**settings, **self.settings}
        if self.has_tls:
            return TlsKafka(directory, every, jvm_options, tls_files(directory.parent))
        return Kafka(directory, every, jvm_options)


PLAIN: Final = Setup("plain")
ACLS: Final = Setup("acls", acls.SETTINGS, complete=acls.put_in_force)
TLS: Final = Setup("tls", has_tls=True)

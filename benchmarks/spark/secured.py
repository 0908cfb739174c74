"""Our format over SASL_SSL beside our format without security: one Spark and one broker, which has
a listener for each. The user of SASL_SSL has exactly the rights that its queries need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.spark.loads import SINKS, WRITTEN, Bench, Pace
from benchmarks.spark.parties import running
from benchmarks.targets import ONCELOG
from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.sink_rights import sink_rights
from oncelog_client.spark.source.plan.source_rights import source_rights
from tests.harness.certificates import Certificates
from tests.spark.guarded import GuardedOncelog

# Fewer rows than beside the connector, because the loads of SECURED_ROWS read no more.
SECURED_FULL: Final = Pace(300_000, {100: (5, 20), 10_000: (5, 20)})
SECURED_QUICK: Final = Pace(60_000, {100: (2, 5), 10_000: (1, 3)})
PLAIN: Final = "plain"
"""The name of the format without security, as the baseline of the table."""


@contextmanager
def secured_benches(
    folder: Path, settings: Mapping[str, str], port: int, pace: Pace, topics: Mapping[int, str]
) -> Iterator[list[Bench]]:
    """Start a broker and a Spark, and yield the two benches: without security, and over SASL_SSL.
    Micro-batches of the two take turns, in rounds."""
    folder.mkdir()
    with (
        GuardedOncelog(folder / "broker", Certificates(folder), settings) as broker,
        running([ONCELOG], folder) as parties,
    ):
        rights = (
            *source_rights(topics.values()),
            *sink_rights(SINKS, [WRITTEN], CommitKind.GROUP, is_prefix=True),
        )
        user = broker.user("spark", rights)
        party = parties[ONCELOG]
        yield [
            Bench(PLAIN, party, broker, port, pace, topics),
            Bench(ONCELOG, party, broker, port, pace, topics, user),
        ]

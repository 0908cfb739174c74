"""Rounds of a cluster's torture, each with a cluster, a seed and an audit of its own."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from tests.harness.kafka.jars import KafkaUnavailable, classpath
from tests.torture.cluster.run import ClusterTorture, Outcome, table

# A round is audited after this many faults.
FAULTS_PER_ROUND: Final = 100
FEWEST_FAULTS: Final = 20


def torture_clusters(
    faults: int, per_round: int, seed: int, settings: Mapping[str, str], keep: Path | None
) -> bool:
    """Run rounds of `per_round` faults, until there were `faults` faults in all. Return False after
    a violation. The data of a round with a violation is kept, also without `keep`."""
    # So that the processes of a run end with it if it is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    java = has_java()
    began_s = time.monotonic()
    wanted = max(faults, FEWEST_FAULTS)
    outcomes: list[Outcome] = []
    while (done := sum(outcome.verdict.faults for outcome in outcomes)) < wanted:
        number = len(outcomes)
        size = min(per_round or FAULTS_PER_ROUND, wanted - done)
        click.echo(f"round {number + 1}: {size} faults of three brokers and three members of etcd")
        click.echo(f"  seed {seed + number}")
        parent = Path(tempfile.mkdtemp(prefix="oncelog-torture-")) if keep is None else keep
        directory = parent / f"round-{number}"
        directory.mkdir(parents=True)
        outcome = ClusterTorture(directory, seed + number, size, java, click.echo, settings).run()
        outcomes.append(outcome)
        _show(outcome, directory)
        if keep is None and outcome.verdict.is_clean:
            shutil.rmtree(parent)
    for line in table(outcomes):
        click.echo(line)
    click.echo(
        f"{done} faults in {len(outcomes)} rounds and {time.monotonic() - began_s:.0f} s: "
        f"{sum(outcome.verdict.records for outcome in outcomes):,} records, "
        f"{sum(outcome.verdict.losses for outcome in outcomes)} lost, "
        f"{sum(outcome.verdict.duplicates for outcome in outcomes)} doubled, "
        f"{sum(len(outcome.verdict.violations) for outcome in outcomes)} violations"
    )
    return all(outcome.verdict.is_clean for outcome in outcomes)


def has_java() -> bool:
    """Return True if Kafka's Java client can run, and say so if it cannot."""
    try:
        classpath()
    except KafkaUnavailable as reason:
        click.echo(f"without the producers of Java: {reason}")
        return False
    return True


def _show(outcome: Outcome, directory: Path) -> None:
    for line in table([outcome]):
        click.echo(line)
    for row in outcome.rows:
        for error, times in row.errors.most_common(3):
            if times:
                click.echo(f"    {row.name}: {times} times: {error}")
    verdict = outcome.verdict
    for violation in verdict.violations:
        click.echo(f"violation, seed {outcome.seed}, data in {directory}: {violation}", err=True)
    click.echo(
        f"{verdict.faults} faults, {verdict.records:,} records, {verdict.losses} lost, "
        f"{verdict.duplicates} doubled, {outcome.partitions} partitions with equal replicas, "
        f"{len(verdict.violations)} violations"
    )

"""`python -m tests.torture --rounds 2`. The exit code is 1 for a duplicate, a loss or another
violation, such as a stuck reader."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from tests.harness.certificates import Certificates
from tests.harness.kafka.kafka import Kafka
from tests.torture.audit import Verdict
from tests.torture.cluster.rounds import torture_clusters
from tests.torture.rounds import SYNCED, Round
from tests.torture.run import BROKER_SETTINGS, torture


@click.command()
@click.option("--rounds", default=2, show_default=True, help="Each round has its own broker.")
@click.option("--kills", default=0, help="Minimum number of broker kills in all rounds together.")
@click.option("--records", default=20_000, show_default=True, help="Records to copy in each round.")
@click.option(
    "--faults",
    default=0,
    help="Minimum number of faults in each round. If necessary, more than --records are copied.",
)
@click.option("--seed", type=int, help="The seed of an earlier run.")
@click.option(
    "--target",
    type=click.Choice(["oncelog", "kafka"]),
    default="oncelog",
    show_default=True,
    help="Apache Kafka is the control; it needs seconds per kill.",
)
@click.option(
    "--secured",
    is_flag=True,
    help="Clients connect by SASL_SSL, authenticate again every three seconds, and have exactly "
    "the rights that they need.",
)
@click.option(
    "--cluster",
    is_flag=True,
    help="Three brokers on three members of etcd, with --kills faults of brokers, etcd and network "
    "in all rounds together, and 100 or --faults in each.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the broker."
)
@click.option(
    "--keep", type=Path, help="A folder to keep data and logs in. Default: a temporary folder."
)
def main(
    rounds: int,
    kills: int,
    records: int,
    faults: int,
    seed: int | None,
    target: str,
    secured: bool,
    cluster: bool,
    settings: tuple[str, ...],
    keep: Path | None,
) -> None:
    """Run a transactional copy loop under kills, pauses and power losses, and audit the result.

    Every second round on oncelog syncs before it acknowledges, and has power losses.
    """
    if secured and target == "kafka":
        raise click.UsageError("--secured needs --target oncelog")
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    chosen = dict(setting.split("=", 1) for setting in settings)
    if cluster:
        if secured or target == "kafka":
            raise click.UsageError("--cluster excludes --secured and --target kafka")
        sys.exit(0 if torture_clusters(kills, faults, seed, chosen, keep) else 1)
    verdicts: list[Verdict] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="oncelog-torture-") as temporary:
        certificates = Certificates(Path(temporary)) if secured else None
        while len(verdicts) < rounds or killed_in(verdicts) < kills:
            number = len(verdicts)
            directory = (Path(temporary) if keep is None else keep) / f"round-{number}"
            directory.mkdir(parents=True)
            synced = target == "oncelog" and number % 2 == 1
            mode = ", over SASL_SSL" if secured else ""
            mode += ", acknowledged once synced, with power losses" if synced else ""
            click.echo(f"round {number + 1}: {records:,} records through {target}{mode}")
            click.echo(f"  seed {seed + number}")
            if target == "kafka":
                verdict = on_kafka(directory, chosen, records, seed + number, faults)
            else:
                chosen_here = {**(SYNCED if synced else {}), **chosen}
                round_ = Round(
                    directory, chosen_here, synced, seed + number, faults, certificates=certificates
                )
                verdict = round_.run(records, click.echo)
            show(verdict)
            verdicts.append(verdict)
        took_s = time.monotonic() - began
        click.echo(
            f"the broker was killed {killed_in(verdicts)} times in {len(verdicts)} rounds and "
            f"{took_s:.0f} s: {sum(verdict.records for verdict in verdicts):,} records, "
            f"{sum(verdict.duplicates for verdict in verdicts)} duplicates, "
            f"{sum(verdict.losses for verdict in verdicts)} losses"
        )
    sys.exit(0 if all(verdict.is_clean for verdict in verdicts) else 1)


def killed_in(verdicts: Iterable[Verdict]) -> int:
    """Return the number of times that SIGKILL ended the broker in these rounds."""
    return sum(verdict.kills for verdict in verdicts)


def on_kafka(
    directory: Path, settings: Mapping[str, str], records: int, seed: int, faults: int
) -> Verdict:
    """Run a round on Apache Kafka."""
    with Kafka(directory / "kafka", {**BROKER_SETTINGS, **settings}) as broker:
        return torture(broker, records, seed, directory, click.echo, faults_wanted=faults)


def show(verdict: Verdict) -> None:
    """Print the counts, the violations, and the times until transactions were decided."""
    for line in verdict.figures:
        click.echo(line)
    for violation in verdict.violations:
        click.echo(f"violation: {violation}", err=True)
    click.echo(
        f"{verdict.records:,} records, {verdict.faults} faults, {verdict.duplicates} duplicates, "
        f"{verdict.losses} losses, {len(verdict.violations)} violations"
    )


if __name__ == "__main__":
    main()

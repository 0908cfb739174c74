"""`python -m tests.torture --rounds 2`. The exit code is 1 for a duplicate, a loss or another
violation, such as a stuck reader."""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import click

from tests.harness.kafka.kafka import Kafka
from tests.torture.audit import Verdict
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
    settings: tuple[str, ...],
    keep: Path | None,
) -> None:
    """Run a transactional copy loop under kills, pauses and power losses, and audit the result.

    Every second round on oncelog syncs before it acknowledges, and has power losses.
    """
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    chosen = dict(setting.split("=", 1) for setting in settings)
    clean = True
    with tempfile.TemporaryDirectory(prefix="oncelog-torture-") as temporary:
        number = killed = 0
        while number < rounds or killed < kills:
            directory = (Path(temporary) if keep is None else keep) / f"round-{number}"
            directory.mkdir(parents=True)
            synced = target == "oncelog" and number % 2 == 1
            mode = ", acknowledged once synced, with power losses" if synced else ""
            click.echo(f"round {number + 1}: {records:,} records through {target}{mode}")
            click.echo(f"  seed {seed + number}")
            if target == "kafka":
                with Kafka(directory / target, {**BROKER_SETTINGS, **chosen}) as broker:
                    verdict = torture(
                        broker,
                        records,
                        seed + number,
                        directory,
                        click.echo,
                        faults_wanted=faults,
                    )
            else:
                synced_settings = SYNCED if synced else {}
                round_settings = {**synced_settings, **chosen}
                round_ = Round(directory, round_settings, synced, seed + number, faults)
                verdict = round_.run(records, click.echo)
            show(verdict)
            clean = clean and verdict.is_clean
            number, killed = number + 1, killed + verdict.kills
        click.echo(f"the broker was killed {killed} times in {number} rounds")
    sys.exit(0 if clean else 1)


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

"""`python -m tests.torture --kills 200`: exit code 1 on any duplicate, loss or stuck reader."""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import click

from tests.broker import Oncelog
from tests.kafka.kafka import Kafka
from tests.torture.run import BROKER_SETTINGS, torture


@click.command()
@click.option("--kills", default=20, show_default=True, help="How often the broker is killed.")
@click.option("--seed", type=int, help="Chances of an earlier run.")
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
@click.option("--keep", type=Path, help="A folder for data and logs, kept; else a temporary one.")
def main(
    kills: int, seed: int | None, target: str, settings: tuple[str, ...], keep: Path | None
) -> None:
    """Kill -9 the broker in a transactional copy loop and audit what is left."""
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    click.echo(f"torture of {target}: {kills} kills, seed {seed}")
    with tempfile.TemporaryDirectory(prefix="oncelog-torture-") as temporary:
        directory = Path(temporary) if keep is None else keep
        directory.mkdir(parents=True, exist_ok=True)
        kind = Oncelog if target == "oncelog" else Kafka
        chosen = dict(setting.split("=", 1) for setting in settings)
        with kind(directory / target, {**BROKER_SETTINGS, **chosen}) as broker:
            verdict = torture(broker, kills, seed, directory, click.echo)
    for violation in verdict.violations:
        click.echo(f"violation: {violation}", err=True)
    click.echo(
        f"{verdict.records} records, {kills} kills, {verdict.duplicates} duplicates, "
        f"{verdict.losses} losses, {len(verdict.violations)} violations"
    )
    sys.exit(0 if verdict.is_clean else 1)


if __name__ == "__main__":
    main()

"""Options that several verbs of `oncelog transactions` have."""

from __future__ import annotations

import click

partition_option = click.option(
    "--partition", type=click.IntRange(min=0, max=(1 << 31) - 1), help="A partition of the topic."
)
broker_option = click.option(
    "--broker-id",
    type=click.IntRange(min=0, max=(1 << 31) - 1),
    help="Send the request to this broker, not to the leaders of the partitions.",
)

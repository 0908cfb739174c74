"""The options that the commands for data directories and for the metadata in etcd share."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

DEFAULT_DATA: Final = "./oncelog-data"

data_option = click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path(DEFAULT_DATA),
    help=f"Data folder of the broker.  [{DEFAULT_DATA}]",
)
config_option = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A server.properties, as for `oncelog serve`.",
)
set_option = click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="One setting."
)
yes_option = click.option(
    "--yes", is_flag=True, help="Make the changes. Without this flag, only the plan is shown."
)
verbose_option = click.option("--verbose", is_flag=True, help="Show every line of the plan.")

"""`oncelog health`: the options of the health check.

`program.py` runs the usual command lines without this module, in half the time.
"""

from __future__ import annotations

import os
import sys

import click

from oncelog_client.cli.commands import Tool
from oncelog_client.cli.names import SecondsType
from oncelog_client.health import TIMEOUT_S, addresses_of, run
from oncelog_client.listener_addresses import DEFAULT

LONGEST_S = 3_600.0


@click.command(
    cls=Tool,
    examples=["health", "health --config server.properties"],
)
@click.option(
    "--bootstrap-server",
    default="",
    metavar="HOST:PORT,…",
    help=f"Also PROTOCOL://HOST:PORT, and $ONCELOG_BOOTSTRAP_SERVER.  [{DEFAULT}]",
)
@click.option(
    "--config", default="", metavar="FILE", help="The server.properties of a broker here."
)
@click.option(
    "--give-up-after",
    type=SecondsType(LONGEST_S),
    default=TIMEOUT_S,
    metavar="SECONDS",
    help=f"How long to wait for a response.  [default: {TIMEOUT_S:g}]",
)
def health(*, bootstrap_server: str, config: str, give_up_after: float) -> None:
    """Check that a broker responds. Exit code 0 if it does, else 1.

    The exit code is also 1 if the broker leads nothing, because its metadata store (etcd) has not
    responded for a session. Before that, the output says for how long it has not.

    The check needs no user and no certificate, on listeners of all security protocols. Without an
    address it asks the listeners in the variables of a broker (KAFKA_LISTENERS) and in --config.
    """
    try:
        addresses = addresses_of(bootstrap_server, config, os.environ)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.UsageError(f"--config {config}: {error.strerror}") from None
    sys.exit(run(addresses, give_up_after))

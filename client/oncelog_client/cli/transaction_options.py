"""What the verbs of `oncelog transactions` share: options may stand before the verb, as in Kafka's
tool, or after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import click
from click.core import ParameterSource

from oncelog_client.admin import Admin
from oncelog_client.cli.connecting import connected_admin
from oncelog_client.cli.options import read_properties, run

T = TypeVar("T")

partition_option = click.option(
    "--partition", type=click.IntRange(min=0), help="Which partition of the topic."
)
broker_option = click.option("--broker-id", type=int, help="Ask this broker, not the leaders.")


def ask(call: Callable[[Admin], Awaitable[T]]) -> T:
    """The outcome of a call on the admin client that the options around the verb describe."""
    context = click.get_current_context()
    assert context.parent is not None
    found = {
        name: (
            context.params[name]
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
            else context.parent.params[name]
        )
        for name in ("bootstrap_server", "command_config", "give_up_after")
    }
    settings = read_properties(found["command_config"])

    async def connect_and_call() -> T:
        async with connected_admin(
            found["bootstrap_server"], settings, found["give_up_after"]
        ) as admin:
            return await call(admin)

    return run(connect_and_call())

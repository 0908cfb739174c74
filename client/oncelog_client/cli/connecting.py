"""How a command reaches the cluster: someone waits at a prompt, for seconds and not for a minute.

The clients' own deadlines are Kafka's, made for programs; `--give-up-after` holds over them here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeVar

import click

from oncelog_client.admin import Admin
from oncelog_client.config import ClientConfig
from oncelog_client.errors import RetriableError


class Client(Protocol):
    """What admin client, producer and consumer have in common."""

    @property
    def config(self) -> ClientConfig: ...

    async def start(self) -> None: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=Client)


@asynccontextmanager
async def connected(client: C, give_up_after: float) -> AsyncIterator[C]:
    """`client`, started, and closed in the end.

    Raises click.ClickException where no broker answers for `give_up_after` seconds.
    """
    try:
        async with asyncio.timeout(give_up_after):
            await client.start()
    except (TimeoutError, RetriableError) as error:
        raise click.ClickException(
            f"no answer from {_addresses(client.config)} for {give_up_after:g} s:"
            " is a broker running there?"
        ) from error
    try:
        yield client
    finally:
        await client.close()


def connected_admin(
    bootstrap_server: str, settings: Mapping[str, Any], give_up_after: float
) -> AbstractAsyncContextManager[Admin]:
    """An admin client whose calls end in `give_up_after` seconds, unless a setting says when."""
    own: Any = {"default_api_timeout_ms": round(give_up_after * 1000), **settings}
    return connected(Admin(bootstrap_server, **own), give_up_after)


def _addresses(config: ClientConfig) -> str:
    return ", ".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for host, port in config.bootstrap_servers
    )

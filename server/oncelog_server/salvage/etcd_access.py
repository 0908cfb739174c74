"""The etcd of a cluster, as a command without a broker finds and opens it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

from oncelog_server.cluster.store import MetadataStore
from oncelog_server.config import Settings, SettingsError, load_settings
from oncelog_server.etcd.opening import open_etcd
from oncelog_server.salvage.shown import fail

T = TypeVar("T")

ENDPOINTS: Final = "oncelog.etcd.endpoints"


def etcd_settings(
    config: Path | None, assignments: tuple[str, ...], data: str | None = None
) -> Settings:
    """Return the settings. End the process with an error if they are invalid, or name no etcd."""
    try:
        settings = load_settings(
            config_file=config, environment=os.environ, assignments=assignments, data=data
        ).settings
    except SettingsError as error:
        fail(str(error))
    if not settings.oncelog_etcd_endpoints:
        fail(f"{ENDPOINTS} is not set")
    return settings


def place_in_etcd(settings: Settings) -> str:
    """Return the text about the keys of the cluster."""
    return f"{settings.given[ENDPOINTS]}, prefix {settings.oncelog_etcd_prefix}"


def call_etcd(settings: Settings, function: Callable[[MetadataStore], Awaitable[T]]) -> T:
    """Call a function with the store. Raises what the function raises."""

    async def call() -> T:
        store = open_etcd(settings)
        try:
            return await function(store)
        finally:
            await store.close()

    return asyncio.run(call())

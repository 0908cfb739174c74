"""Wait for the other brokers of this machine.

Every other broker waits for the first broker before it makes its data directory. It makes this
directory inside that of the first broker, and a new first broker needs an empty directory. All wait
for each other before they serve clients, because a topic of the first client would otherwise be on
one broker alone.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.records import CLUSTER
from oncelog_server.config import Settings
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.metadata.store_wait import StoreWait
from oncelog_server.shared_store.client import SocketStore
from oncelog_server.storage.layout import METADATA_SOCKET

# The other brokers then serve without a broker that has not registered. It joins when it starts.
TIMEOUT_S: Final = 10.0

log = structlog.get_logger("oncelog.broker")

# Pause before the next attempt to reach the first broker, which starts at the same moment.
PAUSE_S: Final = 0.02


async def await_first_broker(settings: Settings, wait: StoreWait) -> None:
    """Return when the first broker serves the metadata. Raises the errors of `StoreWait.step`."""
    assert settings.first_broker is not None
    store = SocketStore(Path(settings.first_broker), METADATA_SOCKET)
    try:
        look = partial(store.get, CLUSTER)
        await wait.step("the first broker", look, pause_s=PAUSE_S, is_expected=True)
    finally:
        await store.close()


async def await_brokers(metadata: ClusterMetadata, settings: Settings) -> None:
    """Return when all brokers of `oncelog.brokers` are registered, or after TIMEOUT_S."""
    first = settings.node_id - settings.member + 1
    expected = set(range(first, first + settings.oncelog_brokers))
    changed = asyncio.Event()

    def follow(old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        if expected <= new.brokers.keys():
            changed.set()

    metadata.subscribe(follow)
    follow(metadata.image, metadata.image, ImageDelta())
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await changed.wait()
    except TimeoutError:
        missing = sorted(expected - metadata.image.brokers.keys())
        log.warning("the broker serves without others of its machine", missing=missing)

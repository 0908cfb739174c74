"""A broker without a network or logs, with real metadata in the simulator's store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from types import GeneratorType
from typing import Any, TypeVar, cast

from oncelog_protocol.apis import APIS
from oncelog_protocol.codecs import decode, encode
from oncelog_server.broker_services import BrokerServices
from oncelog_server.broker_views import BrokerViews
from oncelog_server.cluster.store import MetadataStore
from oncelog_server.deferred import Deferred
from oncelog_server.dynamic_settings import DynamicSettings
from oncelog_server.loop_timers import LoopTimers
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.partition.registry import Partitions
from oncelog_server.quotas.gate import QuotaGate
from oncelog_server.requests.request_context import RequestContext
from oncelog_server.requests.session import Session
from oncelog_server.security.authorizer import AllowAll, Authorizer, Subject
from oncelog_server.security.resources import (
    ANONYMOUS,
    Operation,
    Principal,
    Resource,
    ResourceType,
)
from oncelog_server.settings.listeners import Endpoint
from oncelog_server.settings.model import Settings
from oncelog_server.slices import Slices
from oncelog_server.transaction.producer_ids import ProducerIds
from tests.server.log.driver import NOW_MS
from tests.server.metadata.memory_store import MemoryStore

T = TypeVar("T")

ENDPOINTS = [Endpoint("PLAINTEXT", "inside", 9092), Endpoint("EXTERNAL", "outside", 19092)]
UNUSED: Any = None
DEADLINE_S = 30


class StillClock:
    """The wall clock and the monotonic clock. Both stand still."""

    def now_ms(self) -> int:
        return NOW_MS

    monotonic_ms = boottime_ms = now_ms

    def monotonic_ns(self) -> int:
        return NOW_MS * 1_000_000


class Denying(AllowAll):
    """An authorizer that allows all but some operations on some resources."""

    def __init__(self, *denied: tuple[Operation, str]) -> None:
        self._denied = set(denied)

    def authorize(self, subject: Subject, operation: Operation, resource: Resource) -> bool:
        return (operation, resource.name) not in self._denied

    def authorize_any(self, subject: Subject, operation: Operation, type: ResourceType) -> bool:
        return True


@asynccontextmanager
async def broker(
    settings: Settings | None = None,
    authorizer: Authorizer | None = None,
    store: MetadataStore | None = None,
) -> AsyncIterator[BrokerServices]:
    settings = (settings or Settings()).running()
    metadata = ClusterMetadata(store or MemoryStore(), settings)
    await metadata.start(ENDPOINTS)
    metadata.subscribe(DynamicSettings(settings, metadata.image).follow)
    tasks: set[asyncio.Task[Any]] = set()

    def spawn(work: Coroutine[Any, Any, T], /) -> Deferred[T]:
        result: Deferred[T] = Deferred()

        async def run() -> None:
            result.complete(await work)

        task = asyncio.create_task(run())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return result

    partitions = Partitions()
    yield BrokerServices(
        broker_id=settings.node_id,
        cluster_id=metadata.image.cluster_id,
        settings=settings,
        clock=StillClock(),
        timers=UNUSED,
        authorizer=authorizer or AllowAll(),
        metadata=metadata,
        partitions=partitions,
        views=BrokerViews(settings.node_id, metadata, partitions, settings.data_directory),
        transactions=UNUSED,
        partition_adding=UNUSED,
        groups=UNUSED,
        fetch_sessions=UNUSED,
        local_markers=UNUSED,
        producer_ids=ProducerIds(lambda principal: None),
        spawn=spawn,
        checkpoint=Deferred,
        slices=Slices(
            LoopTimers(asyncio.get_running_loop()), StillClock().monotonic_ms, steps_per_slice=10
        ),
        quotas=QuotaGate(StillClock().monotonic_ms),
    )
    await metadata.stop()


def producer_ids_from(first: int) -> ProducerIds:
    """Return one block of producer ids, which belong to every principal."""
    ids = ProducerIds(lambda principal: None)
    ids.add(range(first, first + 1_000))
    return ids


def context(
    services: BrokerServices,
    api: int,
    version: int,
    listener: str = "PLAINTEXT",
    principal: Principal = ANONYMOUS,
) -> RequestContext:
    session = Session(principal, "127.0.0.1", listener, lambda: False)
    return RequestContext(session, services.authorizer, api, version, 1, "test")


async def _completed(response: Deferred[Any]) -> Any:
    ready = asyncio.Event()
    response.on_complete(lambda value: ready.set())
    await asyncio.wait_for(ready.wait(), DEADLINE_S)
    return response.value


async def ask(
    handler: Any,
    services: BrokerServices,
    request: Any,
    version: int | None = None,
    listener: str = "PLAINTEXT",
    principal: Principal = ANONYMOUS,
) -> Any:
    """Return the response as the client gets it. Request and response are encoded in `version`, by
    default the latest."""
    if version is None:
        version = APIS[handler.API].latest
    api = APIS[handler.API]
    # A connection reads into a buffer that the broker may change.
    arrived = decode(api.request, version, bytearray(encode(request, version)))
    asking = context(services, handler.API, version, listener, principal)
    response = handler.handle(services, asking, arrived)
    while isinstance(response, (GeneratorType, Deferred)):
        if isinstance(response, GeneratorType):
            response = services.slices.run(response)
            continue
        response = await _completed(response)
    return decode(cast(Any, api.response), version, encode(response, version))

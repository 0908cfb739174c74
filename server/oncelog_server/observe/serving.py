"""Make the metrics server of a broker from its settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import structlog

from oncelog_server.broker_services import BrokerServices
from oncelog_server.latencies import Latencies
from oncelog_server.metrics.group_lag import GroupLag
from oncelog_server.metrics.timings import Timings
from oncelog_server.observe.listener import MetricsListener
from oncelog_server.observe.loop_lag import LoopLag
from oncelog_server.observe.page import Cleaning, Connected, Page, Served
from oncelog_server.observe.process import process_figures
from oncelog_server.observe.timed_requests import TimedRequests
from oncelog_server.partition.readable_views import ReadableViews
from oncelog_server.views.broker import StoreView

log = structlog.get_logger("oncelog.metrics")


async def bind_metrics(
    services: BrokerServices,
    served: Served,
    connected: Connected,
    cleaner: Callable[[], Cleaning | None],
    timed: TimedRequests,
    flushes: Latencies,
) -> MetricsListener:
    """Return a server that is bound and does not accept yet. `timed` and `flushes` have the times
    of requests and of syncs. Raises CannotListen if the port cannot be bound."""
    lag = GroupLag(services.groups.views, ReadableViews(services.partitions))
    loop_lag = LoopLag(asyncio.get_running_loop())
    settings = services.settings
    page = Page(
        services,
        served,
        connected,
        cleaner,
        services.clock.now_ms(),
        process_figures,
        lag,
        Timings(timed.by_api, flushes, loop_lag.latencies),
    )
    listener = MetricsListener(page.lines, partial(unready, services, connected), loop_lag.stop)
    host, port = await listener.bind(settings.oncelog_metrics_host, settings.oncelog_metrics_port)
    loop_lag.start()
    log.info("metrics", address=f"{host}:{port}")
    return listener


def unready(services: BrokerServices, connected: Connected) -> str:
    """Return the reason for which clients should not come to this broker now, or an empty text."""
    if connected.is_stopping:
        return "the broker stops"
    store = services.views.store()
    if not store.is_registered:
        return f"the broker leads nothing, because {_why_unregistered(store)}"
    if services.groups.views.is_loading:
        return "groups are still being loaded"
    if services.transactions.views.is_loading:
        return "transactions are still being loaded"
    return ""


def _why_unregistered(store: StoreView) -> str:
    if not store.silence_ms:
        return "its registration has ended"
    return f"the metadata store has not responded for {store.silence_ms // 1000} s"

"""Make the metrics server of a broker from its settings."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from oncelog_server.broker_services import BrokerServices
from oncelog_server.metrics.group_lag import GroupLag
from oncelog_server.observe.listener import MetricsListener
from oncelog_server.observe.page import Cleaning, Connected, Page, Served
from oncelog_server.observe.process import process_figures
from oncelog_server.partition.readable_views import ReadableViews

log = structlog.get_logger("oncelog.metrics")


async def bind_metrics(
    services: BrokerServices,
    served: Served,
    connected: Connected,
    cleaner: Callable[[], Cleaning | None],
) -> MetricsListener:
    """Return a server that is bound and does not accept yet. Raises CannotListen if the port cannot
    be bound."""
    lag = GroupLag(services.groups.views, ReadableViews(services.partitions))
    page = Page(services, served, connected, cleaner, services.clock.now_ms(), process_figures, lag)
    listener = MetricsListener(page.lines)
    settings = services.settings
    host, port = await listener.bind(settings.oncelog_metrics_host, settings.oncelog_metrics_port)
    log.info("metrics", address=f"{host}:{port}")
    return listener

"""The settings of a running broker follow the dynamic settings of the metadata (KIP-226)."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.network.listener import Limits, Listener
from oncelog_server.settings.model import Settings

log = structlog.get_logger("oncelog.settings")


class DynamicSettings:
    """Changes `settings`, the result of `Settings.running`, to those in force. Parts that read the
    settings at each use need nothing else. Parts that keep values of their own register a callback
    by `on_change`."""

    def __init__(self, settings: Settings, image: ClusterImage) -> None:
        self._settings = settings
        self._callbacks: list[Callable[[], None]] = []
        if image.configs:
            self._take(image)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` after each change of the settings in force."""
        self._callbacks.append(callback)

    def follow(self, old: ClusterImage, new: ClusterImage, _delta: ImageDelta) -> None:
        """Apply the dynamic settings of a new image."""
        if new.configs is old.configs or not self._take(new):
            return
        for callback in self._callbacks:
            callback()

    def _take(self, image: ClusterImage) -> bool:
        """Return True if a setting has changed."""
        from oncelog_server.settings.dynamic import in_force

        settings = self._settings
        assert settings.at_start is not None
        own = image.broker_config(str(settings.node_id)).settings
        changed = in_force(settings.at_start, own, image.broker_config("").settings)
        if changed == settings:
            return False
        settings.follow(changed)
        log.info(
            "dynamic settings in force",
            broker=settings.node_id,
            of_broker=dict(settings.dynamic),
            of_all_brokers=dict(settings.dynamic_defaults),
        )
        return True


def follow_settings(listener: Listener, settings: Settings) -> None:
    """Apply the limits of connections."""
    from oncelog_server.network.new_connections import connection_rates

    listener.follow(limits_of_listener(settings), connection_rates(settings))


def limits_of_listener(settings: Settings) -> Limits:
    """Return the limits of connections. More connections than the descriptors allow are never
    accepted, because a file that cannot be opened fails all clients."""
    from oncelog_server.operating_system.descriptors import affordable_connections

    limits = Limits.of(settings)
    affordable = affordable_connections()
    return limits if affordable is None else limits.at_most(affordable)

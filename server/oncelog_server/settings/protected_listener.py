"""The listener with connections of other brokers that clients can neither delay nor refuse."""

from __future__ import annotations

from oncelog_server.settings.listeners import inter_broker_listener, listeners_of
from oncelog_server.settings.model import Settings


def protected_listener(settings: Settings) -> str | None:
    """Return the name of the listener for other brokers if there are several listeners, else None
    (ConnectionQuotas.protectedListener, KIP-402 and KIP-612).

    A single broker may have no setting that names the listener. Then no listener is protected, as
    the first one may be that of all clients. Kafka does not start with such settings.
    """
    names = {listener.name for listener in listeners_of(settings)}
    if len(names) == 1:
        return None
    named = settings.inter_broker_listener_name or settings.security_inter_broker_protocol
    if named.upper() not in names and not settings.has_other_brokers:
        return None
    return inter_broker_listener(settings)

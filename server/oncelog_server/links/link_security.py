"""The security of the connections to other brokers: that of the inter-broker listener."""

from __future__ import annotations

import ssl
from collections.abc import Callable

import msgspec

from oncelog_protocol.security.login import RandomBytes, password_credentials, sasl_client
from oncelog_protocol.security.mechanisms import SaslMechanism
from oncelog_protocol.security.sasl_client import SaslClient
from oncelog_protocol.tls.contexts import client_context
from oncelog_server.links.link_authentication import LinkAuthentication
from oncelog_server.settings.listener_security import (
    SecurityProblem,
    jaas_name,
    login_modules,
    tls_settings,
)
from oncelog_server.settings.listeners import ListenerAddress
from oncelog_server.settings.model import Settings

INTER_BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"


class LinkSecurity(msgspec.Struct, frozen=True):
    """`context` is None without TLS. `new_client` returns the client's side of a new SASL exchange;
    it is None without SASL."""

    context: ssl.SSLContext | None
    new_client: Callable[[], SaslClient] | None

    def authentication(self) -> LinkAuthentication | None:
        """Return the authentication of a new connection, None without SASL."""
        return None if self.new_client is None else LinkAuthentication(self.new_client())


def link_security(
    settings: Settings, listener: ListenerAddress, random_bytes: RandomBytes
) -> LinkSecurity:
    """Return the security of links to a listener. The links show the listener's own certificate,
    and authenticate as the user in its JAAS configuration, as in Kafka.

    Raises ValueError, which names the setting, if the certificates or credentials cannot be used.
    """
    context = None
    if listener.protocol.has_tls:
        own = settings.of_listener(listener.name)
        algorithm = own.ssl_endpoint_identification_algorithm
        tls = tls_settings(settings, listener)
        context = client_context(tls._replace(endpoint_identification_algorithm=algorithm))
    if not listener.protocol.has_sasl:
        return LinkSecurity(context, None)
    return LinkSecurity(context, _new_client(settings, listener, random_bytes))


def _new_client(
    settings: Settings, listener: ListenerAddress, random_bytes: RandomBytes
) -> Callable[[], SaslClient]:
    name = settings.sasl_mechanism_inter_broker_protocol
    try:
        mechanism = SaslMechanism(name)
    except ValueError:
        raise SecurityProblem(INTER_BROKER_MECHANISM, f"{name} is not built") from None
    setting = jaas_name(listener, mechanism)
    modules = login_modules(settings, listener, mechanism)
    if not modules:
        raise SecurityProblem(setting, "has the user and the password of the links, so set it")
    credentials = password_credentials(setting, mechanism, modules[0])
    return lambda: sasl_client(credentials, random_bytes)

"""The rules between settings: values that are valid alone, and contradict others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oncelog_server.security.protocols import SecurityProtocol
from oncelog_server.settings.listeners import (
    INTER_BROKER_PROTOCOL,
    InvalidConnectionLimits,
    InvalidListeners,
    check_inter_broker_protocol,
    client_listeners,
    connection_limits,
    listeners_of,
    shares_an_address,
)
from oncelog_server.settings.machine import LAST_PORT, last_port
from oncelog_server.settings.model import Settings

OVERRIDES: Final = "max.connections.per.ip.overrides"
_BUFFER: Final = "log.cleaner.dedupe.buffer.size"
_CLEANER_THREADS: Final = "log.cleaner.threads"
# As in Kafka, a buffer has one byte more.
_LEAST_BUFFER_BYTES: Final = 1_048_576
# (setting, reason)
_Found = Iterator[tuple[str, str]]


def contradictions(settings: Settings) -> list[tuple[str, str]]:
    """Return (setting, reason) for settings that are valid alone but contradict others.

    Most of the rules are those of KafkaConfig.
    """
    return [
        *_of_listeners(settings),
        *_of_metrics_port(settings),
        *_of_cluster(settings),
        *_of_machine(settings),
        *_of_etcd(settings),
        *_of_limits(settings),
        *_of_cleaner(settings),
    ]


def _of_listeners(settings: Settings) -> _Found:
    try:
        listeners = listeners_of(settings)
    except InvalidListeners as error:
        yield error.setting, str(error)
    else:
        if any(listener.protocol is not SecurityProtocol.PLAINTEXT for listener in listeners):
            # A start without TLS and SASL does not import this module.
            from oncelog_server.settings.listener_security import security_problems

            for problem in security_problems(settings, listeners):
                yield problem.setting, str(problem)
        yield from _of_inter_broker_protocol(settings)
        known = {listener.name for listener in listeners}
        known.update(name.upper() for name in settings.controller_listener_names)
        for setting in settings.of_listeners:
            if setting.listener not in known:
                yield setting.full_name, f"there is no listener {setting.listener}"
    try:
        connection_limits(settings.max_connections_per_ip_overrides)
    except InvalidConnectionLimits as error:
        yield OVERRIDES, str(error)
    else:
        if settings.max_connections_per_ip == 0 and not settings.max_connections_per_ip_overrides:
            reason = f"can be set to zero only if {OVERRIDES} property is set."
            yield "max.connections.per.ip", reason


def _of_inter_broker_protocol(settings: Settings) -> _Found:
    """The default of the setting falls back to the first listener. A value of the user never does:
    the links to other brokers would not have the security that the user has asked for."""
    if INTER_BROKER_PROTOCOL in settings.given:
        try:
            check_inter_broker_protocol(settings)
        except InvalidListeners as error:
            yield error.setting, str(error)


def _of_metrics_port(settings: Settings) -> _Found:
    port = settings.oncelog_metrics_port
    for listener in client_listeners(settings):
        if listener.port == port > 0 and shares_an_address(
            listener.host, settings.oncelog_metrics_host
        ):
            reason = f"is also the port of listener {listener.name}: give each its own port"
            yield "oncelog.metrics.port", reason


def _of_cluster(settings: Settings) -> _Found:
    for name in ("controller.quorum.voters", "controller.quorum.bootstrap.servers"):
        nodes = [node for node in settings.given.get(name, "").split(",") if node.strip()]
        if len(nodes) > 1 and not settings.oncelog_etcd_endpoints:
            reason = (
                f"names {len(nodes)} nodes, but the brokers of a cluster of oncelog share an etcd, "
                "and oncelog.etcd.endpoints is not set. Each of these nodes would be a cluster of "
                "its own"
            )
            yield name, reason
    if settings.process_roles and "broker" not in settings.process_roles:
        yield "process.roles", "this process is a broker, and can be nothing else"
    if settings.broker_id not in (-1, settings.node_id) and "node.id" in settings.given:
        yield "broker.id", f"must be the same as node.id, which is {settings.node_id}"
    directories = settings.log_dirs or settings.log_dir
    if len(directories) != 1:
        name = "log.dirs" if settings.log_dirs is not None else "log.dir"
        yield name, "exactly one data directory can be used for now"


def _of_machine(settings: Settings) -> _Found:
    if settings.oncelog_brokers == 1:
        return
    if settings.oncelog_etcd_endpoints:
        yield "oncelog.brokers", "is for brokers without etcd: start each broker by itself"
    if last_port(settings) > LAST_PORT:
        yield "oncelog.brokers", f"the last of the brokers would get the port {last_port(settings)}"


def _of_etcd(settings: Settings) -> _Found:
    if (settings.oncelog_etcd_username is None) != (settings.oncelog_etcd_password is None):
        yield "oncelog.etcd.password", "belongs to oncelog.etcd.username: set both or neither"


def _of_limits(settings: Settings) -> _Found:
    """Yield the contradictions of numbers. A reason has the value of the other setting, because
    either one may be a default."""
    longest_session = settings.group_max_session_timeout_ms
    if settings.group_min_session_timeout_ms > longest_session:
        reason = f"is above group.max.session.timeout.ms={longest_session}"
        yield "group.min.session.timeout.ms", reason
    longest_lag_ms = settings.log_cleaner_max_compaction_lag_ms
    if settings.log_cleaner_min_compaction_lag_ms > longest_lag_ms:
        reason = f"is above log.cleaner.max.compaction.lag.ms={longest_lag_ms}"
        yield "log.cleaner.min.compaction.lag.ms", reason
    if settings.replica_fetch_wait_max_ms > settings.replica_lag_time_max_ms:
        reason = f"is above replica.lag.time.max.ms={settings.replica_lag_time_max_ms}"
        yield "replica.fetch.wait.max.ms", reason
    heartbeat_ms = settings.broker_heartbeat_interval_ms
    if settings.has_other_brokers and settings.broker_session_timeout_ms <= heartbeat_ms:
        reason = (
            f"is not above broker.heartbeat.interval.ms={heartbeat_ms}: the registration would end "
            "before its renewal"
        )
        yield "broker.session.timeout.ms", reason
    if settings.replica_fetch_wait_max_ms > settings.replica_socket_timeout_ms:
        reason = f"is below replica.fetch.wait.max.ms={settings.replica_fetch_wait_max_ms}"
        yield "replica.socket.timeout.ms", reason
    largest_request = settings.socket_request_max_bytes
    if 0 < settings.queued_max_request_bytes < largest_request:
        reason = f"is below socket.request.max.bytes={largest_request}"
        yield "queued.max.request.bytes", reason
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if getattr(settings, name.replace(".", "_")) == 0:
            yield name, "must be unlimited (-1) or, greater than or equal to 1"
    for name, least in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0)):
        time_ms = getattr(settings, name.replace(".", "_"))
        if time_ms is not None and time_ms < least:
            yield name, f"must be greater than or equal to {least}"


def _of_cleaner(settings: Settings) -> _Found:
    layers = settings.dynamic, settings.dynamic_defaults
    changed = {name for texts in (*layers, settings.given) for name in texts}
    if changed.isdisjoint((_BUFFER, _CLEANER_THREADS)):
        return
    # A start with the defaults does not import this module.
    from oncelog_server.settings.thread_counts import thread_count

    threads = thread_count(settings, layers, _CLEANER_THREADS)
    if threads > 0 and settings.log_cleaner_dedupe_buffer_size // threads <= _LEAST_BUFFER_BYTES:
        yield _BUFFER, "must be at least 1MB per cleaner thread."

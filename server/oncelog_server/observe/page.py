"""The page of all metrics, computed for each scrape from the state of the broker's parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

import msgspec

from oncelog_protocol import __version__
from oncelog_protocol.errors import ErrorCode
from oncelog_server.broker_services import BrokerServices
from oncelog_server.metrics import table as metrics
from oncelog_server.metrics.coordinators import group_lines, transaction_lines
from oncelog_server.metrics.exposition import as_work
from oncelog_server.metrics.group_lag import GroupLag
from oncelog_server.metrics.partitions import LATE_AFTER_MS, partition_lines
from oncelog_server.metrics.timings import Timings

# Kafka's BrokerState.
RUNNING: Final = 3
STOPPING: Final = 6


class ProcessFigures(msgspec.Struct, frozen=True):
    """Figures of this process from the operating system."""

    resident_bytes: int
    cpu_seconds: float


class Served(Protocol):
    def counts(self) -> Iterable[tuple[str, int, int]]:
        """Return (API's name, version, requests since the start) for each API and version."""
        ...

    def error_counts(self) -> Iterable[tuple[str, int, int]]:
        """Return (API's name, error code, codes in responses since the start)."""
        ...


class Connected(Protocol):
    @property
    def is_stopping(self) -> bool:
        """Return True if the broker stops."""
        ...

    @property
    def accepted(self) -> int:
        """Return the number of connections accepted since the start."""
        ...

    def by_listener(self) -> Iterable[tuple[str, int]]:
        """Return (listener's name, number of open connections) for each listener."""
        ...

    def refused_by_listener(self) -> Iterable[tuple[str, int]]:
        """Return (listener's name, clients that failed to authenticate) for each listener."""
        ...

    def expired_by_listener(self) -> Iterable[tuple[str, int]]:
        """Return (listener's name, sessions that clients did not renew in time) for each
        listener."""
        ...

    def certificates_by_listener(self) -> Iterable[tuple[str, int]]:
        """Return (listener's name, time in ms since the epoch at which its certificate expires) for
        each listener with TLS."""
        ...

    def by_software(self) -> Iterable[tuple[str, str, str, int]]:
        """Return (name of the clients' software, version, listener, number of open connections)."""
        ...


class Cleaning(Protocol):
    """The log cleaner."""

    @property
    def passes(self) -> int: ...

    @property
    def uncleanable_count(self) -> int: ...

    @property
    def idle_ms(self) -> int: ...


class Page(msgspec.Struct, frozen=True):
    """The sources of the page. `started_ms` is wall-clock time. `cleaner` returns None until the
    log cleaner is loaded, some time after the start."""

    services: BrokerServices
    served: Served
    connected: Connected
    cleaner: Callable[[], Cleaning | None]
    started_ms: int
    process: Callable[[], ProcessFigures]
    group_lag: GroupLag
    timings: Timings

    def lines(self) -> Iterator[str]:
        """Yield the lines of the page. The caller may do other work between two lines."""
        services = self.services
        wall_ms = services.clock.now_ms()
        late_before_ms = wall_ms - services.settings.transaction_max_timeout_ms - LATE_AFTER_MS
        yield from self._process_lines()
        yield from self._cluster_lines()
        yield from self._request_lines()
        yield from self.timings.lines(services.clock.monotonic_ms())
        yield from self._cleaner_lines()
        yield metrics.PRODUCER_IDS_REFUSED.head()
        for setting, count in services.producer_id_quota.refused.counts.items():
            yield metrics.PRODUCER_IDS_REFUSED.line(count, setting)
        yield from transaction_lines(services.transactions.views, wall_ms)
        yield from group_lines(services.groups.views)
        yield from self.group_lag.lines()
        yield from partition_lines(
            services.views.partitions, services.transactions.views, late_before_ms
        )

    def _process_lines(self) -> Iterator[str]:
        figures = self.process()
        yield metrics.BUILD_INFO.head()
        yield metrics.BUILD_INFO.line(1, __version__)
        yield from metrics.RESIDENT_BYTES.only(figures.resident_bytes)
        yield from metrics.CPU_SECONDS.only(figures.cpu_seconds)
        disk = self.services.views.log_dir()
        yield from metrics.DISK_SIZE.only(disk.total_bytes)
        yield from metrics.DISK_FREE.only(disk.usable_bytes)
        yield from metrics.START_TIME.only(self.started_ms / 1000)

    def _cluster_lines(self) -> Iterator[str]:
        cluster = yield from as_work(self.services.views.broker())
        yield from metrics.ACTIVE_CONTROLLER.only(int(cluster.is_controller))
        yield from metrics.GLOBAL_TOPICS.only(cluster.topics)
        yield from metrics.GLOBAL_PARTITIONS.only(cluster.partitions)
        yield from metrics.OFFLINE_PARTITIONS.only(cluster.without_leader)
        yield from metrics.IMBALANCED_PARTITIONS.only(cluster.imbalanced)
        yield from metrics.ACTIVE_BROKERS.only(cluster.brokers)
        yield from metrics.FENCED_BROKERS.only(cluster.fenced)
        yield from metrics.BROKER_STATE.only(STOPPING if cluster.is_draining else RUNNING)
        yield from metrics.STORE_SILENCE.only(self.services.views.store().silence_ms)
        replication = self.services.replication()
        yield from metrics.ISR_SHRINKS.only(replication.isr_shrinks)
        yield from metrics.ISR_EXPANDS.only(replication.isr_expands)
        yield from metrics.FAILED_ISR_UPDATES.only(replication.failed_isr_updates)
        yield from metrics.FETCHER_MAX_LAG.only(replication.max_lag)
        yield from metrics.REPLICATED_BYTES_IN.only(replication.bytes_in)
        yield from metrics.REPLICATED_BYTES_OUT.only(replication.bytes_out)
        yield from metrics.REASSIGNED_BYTES_IN.only(replication.reassigned_in)
        yield from metrics.REASSIGNED_BYTES_OUT.only(replication.reassigned_out)

    def _cleaner_lines(self) -> Iterator[str]:
        cleaner = self.cleaner()
        yield from metrics.UNCLEANABLE.only(0 if cleaner is None else cleaner.uncleanable_count)
        yield from metrics.CLEANER_IDLE.only(0 if cleaner is None else cleaner.idle_ms)
        yield from metrics.COMPACTIONS.only(0 if cleaner is None else cleaner.passes)

    def _request_lines(self) -> Iterator[str]:
        yield metrics.REQUESTS.head()
        for name, version, count in self.served.counts():
            yield metrics.REQUESTS.line(count, name, str(version))
        yield metrics.ERRORS.head()
        for name, code, count in self.served.error_counts():
            yield metrics.ERRORS.line(count, name, ErrorCode(code).name)
        yield metrics.CONNECTIONS.head()
        for listener, count in self.connected.by_listener():
            yield metrics.CONNECTIONS.line(count, listener)
        yield metrics.CLIENTS.head()
        for software, software_version, listener, count in self.connected.by_software():
            yield metrics.CLIENTS.line(count, software, software_version, listener)
        yield from metrics.CONNECTIONS_MADE.only(self.connected.accepted)
        yield metrics.FAILED_AUTHENTICATIONS.head()
        for listener, count in self.connected.refused_by_listener():
            yield metrics.FAILED_AUTHENTICATIONS.line(count, listener)
        yield metrics.EXPIRED_SESSIONS.head()
        for listener, count in self.connected.expired_by_listener():
            yield metrics.EXPIRED_SESSIONS.line(count, listener)
        yield metrics.CERTIFICATE_EXPIRY.head()
        for listener, time_ms in self.connected.certificates_by_listener():
            yield metrics.CERTIFICATE_EXPIRY.line(time_ms // 1_000, listener)
        authorizer = self.services.authorizer
        yield from metrics.DENIED.only(authorizer.denied_total)
        yield from metrics.ACLS.only(authorizer.rule_count)
        yield from metrics.FETCH_SESSIONS.only(len(self.services.fetch_sessions))

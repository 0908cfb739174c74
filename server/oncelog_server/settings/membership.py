"""Honored settings of a broker as a member of a cluster, and of the controller."""

from __future__ import annotations

from oncelog_server.settings.immutable import ImmutableSettings
from oncelog_server.settings.table import Importance, Kind, at_least, honoured

HIGH = Importance.HIGH


class MembershipSettings(ImmutableSettings):
    """Names and defaults are Kafka 4.3's. They have no effect on a broker with its metadata in the
    data directory, which is a cluster by itself."""

    oncelog_brokers: int = honoured(
        Kind.INT,
        1,
        "The number of brokers that `oncelog serve` runs on this machine, each in a process of its "
        "own, as one cluster without etcd. Their ids and ports follow each other, and broker n has "
        "the directory brokers/n in the data directory.",
        at_least(1),
        importance=HIGH,
    )
    broker_heartbeat_interval_ms: int = honoured(
        Kind.INT,
        2000,
        "The interval at which a broker of a cluster renews its registration. Kafka has no "
        "minimum.",
        at_least(1),
    )
    broker_session_timeout_ms: int = honoured(
        Kind.INT,
        9000,
        "The time after which a broker of a cluster is fenced if it does not renew its "
        "registration. Etcd rounds it up to whole seconds, at least 2. Kafka has no minimum.",
        at_least(1),
    )
    oncelog_exit_monitor_enable: bool = honoured(
        Kind.BOOLEAN,
        True,
        "Run a small process beside a broker with etcd. If the broker's process dies, this process "
        "ends the broker's registration at once, so that others elect new leaders before "
        "broker.session.timeout.ms.",
    )
    controlled_shutdown_enable: bool = honoured(
        Kind.BOOLEAN,
        True,
        "Move the leaders of a broker to other brokers before it stops, for at most 6 s. Kafka has "
        "no limit.",
    )
    initial_broker_registration_timeout_ms: int = honoured(
        Kind.INT,
        60_000,
        "How long a start waits for etcd (with oncelog.brokers, for the first broker) in all of "
        "its steps together, and for the end of another broker's registration with the same "
        "node.id. The recovery of logs does not count. A start does not wait for an earlier "
        "process with the same data directory.",
        at_least(0),
    )
    auto_leader_rebalance_enable: bool = honoured(
        Kind.BOOLEAN,
        True,
        "Let the controller elect the preferred leaders of partitions at intervals.",
        importance=HIGH,
    )
    leader_imbalance_check_interval_seconds: int = honoured(
        Kind.LONG,
        300,
        "The interval of these elections.",
        at_least(1),
        importance=HIGH,
    )

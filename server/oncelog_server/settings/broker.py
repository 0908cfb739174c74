"""Honoured settings of the broker itself: identity, listeners, connections, requests, topics."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog_server.settings.table import Importance, Kind, at_least, between, honoured

HIGH, LOW = Importance.HIGH, Importance.LOW
UNLIMITED = 2**31 - 1


@dataclass(frozen=True, init=False, repr=False, eq=False)  # `Settings` has all of these
class BrokerSettings:
    """Names, defaults and ranges are Kafka 4.3's, unless the sentence says otherwise."""

    node_id: int = honoured(
        Kind.INT,
        1,
        "The id of this broker. Kafka demands it; here it is 1 unless set.",
        at_least(0),
        importance=HIGH,
    )
    broker_id: int = honoured(
        Kind.INT, -1, "An older name of node.id; -1 means that node.id holds.", importance=HIGH
    )
    broker_rack: str | None = honoured(
        Kind.STRING, None, "The rack of this broker, shown in metadata answers."
    )
    listeners: tuple[str, ...] = honoured(
        Kind.LIST,
        ("PLAINTEXT://:9092",),
        "What to listen on: NAME://host:port, separated by commas. An empty host means every "
        "address, port 0 a free one. Listeners named in controller.listener.names are ignored.",
        importance=HIGH,
    )
    advertised_listeners: tuple[str, ...] | None = honoured(
        Kind.LIST,
        None,
        "The addresses that clients are told, by listener name; as `listeners` unless set.",
        importance=HIGH,
    )
    listener_security_protocol_map: str = honoured(
        Kind.STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name. Only PLAINTEXT can be served for now.",
        importance=LOW,
    )
    controller_listener_names: tuple[str, ...] = honoured(
        Kind.LIST,
        (),
        "Listeners of a KRaft controller: there is none here, so listeners of these names are "
        "not opened.",
        importance=HIGH,
    )
    process_roles: tuple[str, ...] = honoured(
        Kind.LIST,
        (),
        "Must name `broker` if it is set at all: this process is nothing else.",
        importance=HIGH,
    )
    inter_broker_listener_name: str | None = honoured(
        Kind.STRING, None, "The listener that other brokers connect to; the first one unless set."
    )
    log_dir: tuple[str, ...] = honoured(
        Kind.LIST,
        ("./oncelog-data",),
        "The data directory if log.dirs is not set.",
        importance=HIGH,
    )
    log_dirs: tuple[str, ...] | None = honoured(
        Kind.LIST,
        None,
        "The data directory: one, for now. ./oncelog-data unless this or log.dir is set.",
        importance=HIGH,
    )

    max_connections: int = honoured(
        Kind.INT,
        10_000,
        "Connections the broker holds at most; more are closed at once. Kafka's default is no "
        "limit: descriptors would run out before. Fewer where ulimit -n leaves too few for files.",
        at_least(0),
    )
    max_connections_per_ip: int = honoured(
        Kind.INT, UNLIMITED, "Connections from one address at most.", at_least(0)
    )
    max_connections_per_ip_overrides: str = honoured(
        Kind.STRING, "", "Exceptions to max.connections.per.ip, as address:count."
    )
    connections_max_idle_ms: int = honoured(
        Kind.LONG, 600_000, "A connection on which nothing happened for so long is closed."
    )
    socket_listen_backlog_size: int = honoured(
        Kind.INT, 50, "Connections waiting to be accepted.", at_least(1)
    )
    socket_send_buffer_bytes: int = honoured(
        Kind.INT,
        393_216,
        "SO_SNDBUF of every connection; -1 leaves it to the system. Large answers leave in portions"
        " of about this size, which stay in the processor's cache.",
        at_least(-1),
        importance=HIGH,
    )
    socket_request_max_bytes: int = honoured(
        Kind.INT,
        104_857_600,
        "The largest request; a larger one closes its connection before memory is taken.",
        at_least(1),
        importance=HIGH,
    )
    queued_max_request_bytes: int = honoured(
        Kind.LONG,
        -1,
        "Bytes of requests being received or waiting, over all connections; -1: no limit.",
    )
    fetch_max_bytes: int = honoured(
        Kind.INT, 57_671_680, "Bytes in one Fetch answer at most.", at_least(1024)
    )
    max_incremental_fetch_session_cache_slots: int = honoured(
        Kind.INT, 1000, "Fetch sessions (KIP-227) kept at most.", at_least(0)
    )
    max_request_partition_size_limit: int = honoured(
        Kind.INT, 2000, "Partitions in one DescribeTopicPartitions answer at most.", at_least(1)
    )

    oncelog_metrics_port: int = honoured(
        Kind.INT,
        -1,
        "Port of `GET /metrics`, for Prometheus (docs/metrics.md); 0 picks a free one, -1: none.",
        between(-1, 65_535),
    )
    oncelog_metrics_host: str = honoured(
        Kind.STRING, "", "The address that oncelog.metrics.port is on; empty: every address."
    )

    auto_create_topics_enable: bool = honoured(
        Kind.BOOLEAN, True, "A topic is created when a client first asks for it.", importance=HIGH
    )
    delete_topic_enable: bool = honoured(
        Kind.BOOLEAN, True, "DeleteTopics is allowed.", importance=HIGH
    )
    num_partitions: int = honoured(
        Kind.INT, 1, "Partitions of a new topic that does not say.", at_least(1)
    )
    default_replication_factor: int = honoured(
        Kind.INT, 1, "Replicas of a new topic that does not say.", at_least(1)
    )

    oncelog_max_partitions: int = honoured(
        Kind.INT,
        20_000,
        "Partitions of all topics together, internal ones aside: whoever wants more is refused "
        "with POLICY_VIOLATION. Each takes some 7 KiB of memory, and 1 to 3 ms of every start.",
        at_least(1),
        importance=LOW,
    )
    oncelog_flush_on_ack: bool = honoured(
        Kind.BOOLEAN,
        False,
        "true: an answer to acks=all, a commit of offsets or the end of a transaction waits until "
        "its records are fdatasynced, many answers to one fdatasync: what was acknowledged "
        "survives SIGKILL and power loss. false (Kafka's way): records are with the operating "
        "system when they are acknowledged: they survive SIGKILL of the broker; after a power "
        "loss the broker starts clean, but the last records may be gone.",
        importance=HIGH,
    )
    oncelog_validate_records: bool = honoured(
        Kind.BOOLEAN,
        False,
        "true: every record inside a produced batch is decoded and checked. false: header, record "
        "count and CRC are checked, and records only where a topic setting needs it.",
    )

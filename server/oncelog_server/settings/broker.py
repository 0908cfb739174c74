"""Honored settings of the broker itself: identity, listeners, connections, requests, topics."""

from __future__ import annotations

from oncelog_server.settings.first_topics import valid_first_topics
from oncelog_server.settings.immutable import ImmutableSettings
from oncelog_server.settings.table import Importance, Kind, at_least, between, honoured, one_of

HIGH, LOW = Importance.HIGH, Importance.LOW
UNLIMITED = 2**31 - 1


class BrokerSettings(ImmutableSettings):
    """Names, defaults and ranges are Kafka 4.3's, unless the text of a setting says otherwise."""

    node_id: int = honoured(
        Kind.INT,
        1,
        "The id of this broker. Kafka requires it; here the default is 1.",
        at_least(0),
        importance=HIGH,
    )
    broker_id: int = honoured(
        Kind.INT, -1, "An older name of node.id; -1 means that node.id applies.", importance=HIGH
    )
    broker_rack: str | None = honoured(
        Kind.STRING, None, "The rack of this broker, shown in metadata responses."
    )
    listeners: tuple[str, ...] = honoured(
        Kind.LIST,
        ("PLAINTEXT://:9092",),
        "The addresses to listen on: NAME://host:port, separated by commas. An empty host means "
        "every address, port 0 a free port. Listeners named in controller.listener.names are "
        "ignored.",
        importance=HIGH,
    )
    advertised_listeners: tuple[str, ...] | None = honoured(
        Kind.LIST,
        None,
        "The addresses that clients get, by listener name; if not set, those of `listeners`.",
        importance=HIGH,
    )
    listener_security_protocol_map: str = honoured(
        Kind.STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
        importance=LOW,
    )
    controller_listener_names: tuple[str, ...] = honoured(
        Kind.LIST,
        (),
        "Names of the listeners of a KRaft controller. There is no such controller here, so "
        "listeners of these names are not opened.",
        importance=HIGH,
    )
    process_roles: tuple[str, ...] = honoured(
        Kind.LIST,
        (),
        "The roles of this process. If set, it must contain `broker`, the only role.",
        importance=HIGH,
    )
    inter_broker_listener_name: str | None = honoured(
        Kind.STRING,
        None,
        "The listener that other brokers connect to. It must be advertised. If not set, it is the "
        "listener with the name of security.inter.broker.protocol. If neither is set and no "
        "listener has the name PLAINTEXT, it is the first listener. Set only one of the two.",
    )
    security_inter_broker_protocol: str = honoured(
        Kind.STRING,
        "PLAINTEXT",
        "The name of the listener that other brokers connect to, if inter.broker.listener.name is "
        "not set. If this is set, a listener of this name must be advertised.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
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
        "The data directory; only one is possible for now. If not set, log.dir applies.",
        importance=HIGH,
    )

    max_connections: int = honoured(
        Kind.INT,
        10_000,
        "Maximum number of connections; further ones are closed at once. With several listeners, "
        "the one for other brokers admits further connections, and the least recently used ones of "
        "other listeners are closed (KIP-402). A listener can have its own limit: "
        "`listener.name.<listener>.max.connections`. Kafka has no limit by default, but "
        "descriptors run out. The limit is lower if ulimit -n leaves too few descriptors for "
        "files.",
        at_least(0),
    )
    max_connection_creation_rate: int = honoured(
        Kind.INT,
        UNLIMITED,
        "Maximum number of new connections per second, of all listeners and of each. Further ones "
        "wait. A listener can have its own limit: `listener.name.<listener>.max.connection.creation"
        ".rate`. New connections of the inter-broker listener do not count for the others.",
        at_least(0),
    )
    max_connections_per_ip: int = honoured(
        Kind.INT, UNLIMITED, "Maximum number of connections from one address.", at_least(0)
    )
    max_connections_per_ip_overrides: str = honoured(
        Kind.STRING, "", "Exceptions to max.connections.per.ip, as address:count."
    )
    connections_max_idle_ms: int = honoured(
        Kind.LONG, 600_000, "Idle time after which a connection is closed."
    )
    socket_listen_backlog_size: int = honoured(
        Kind.INT, 50, "Maximum number of connections that wait to be accepted.", at_least(1)
    )
    socket_receive_buffer_bytes: int = honoured(
        Kind.INT,
        102_400,
        "SO_RCVBUF of every connection; -1 leaves it to the operating system. If it is not set, a "
        "listener with TLS has 400 KiB, and the operating system sizes the buffers of the others.",
        at_least(-1),
        importance=HIGH,
    )
    socket_send_buffer_bytes: int = honoured(
        Kind.INT,
        393_216,
        "SO_SNDBUF of every connection; -1 leaves it to the operating system. Large responses are "
        "sent in portions of about this size, which fit into the processor's cache.",
        at_least(-1),
        importance=HIGH,
    )
    socket_request_max_bytes: int = honoured(
        Kind.INT,
        104_857_600,
        "Maximum size of a request. A connection with a larger request is closed before memory is "
        "allocated for the request.",
        at_least(1),
        importance=HIGH,
    )
    queued_max_request_bytes: int = honoured(
        Kind.LONG,
        -1,
        "Maximum bytes of the requests that are being received or are waiting, over all "
        "connections; -1: no limit.",
    )
    fetch_max_bytes: int = honoured(
        Kind.INT, 57_671_680, "Maximum bytes in one Fetch response.", at_least(1024)
    )
    max_incremental_fetch_session_cache_slots: int = honoured(
        Kind.INT, 1000, "Maximum number of fetch sessions (KIP-227).", at_least(0)
    )
    max_request_partition_size_limit: int = honoured(
        Kind.INT, 2000, "Maximum partitions in one DescribeTopicPartitions response.", at_least(1)
    )

    oncelog_spin_us: int = honoured(
        Kind.INT,
        0,
        "Time for which the broker polls its sockets after a single response, before it sleeps. A "
        "client that sends one request at a time then waits less. Each such response costs up to "
        "this much time of a processor; Kafka always sleeps (docs/performance.md). 0: sleep at "
        "once.",
        between(0, 1_000),
        importance=LOW,
    )
    oncelog_metrics_port: int = honoured(
        Kind.INT,
        -1,
        "Port of `GET /metrics`, for Prometheus (docs/metrics.md); 0: a free port, -1: no port.",
        between(-1, 65_535),
    )
    oncelog_metrics_host: str = honoured(
        Kind.STRING, "", "The address of oncelog.metrics.port; empty: every address."
    )
    oncelog_create_topics: tuple[str, ...] = honoured(
        Kind.LIST,
        (),
        "Topics that a start creates if they do not exist, each as name:partitions, "
        "name:partitions:replicas or name:partitions:replicas:cleanup.policy.",
        valid_first_topics,
    )
    oncelog_kafka_log_lines: bool = honoured(
        Kind.BOOLEAN,
        False,
        "At the end of its start, print the lines that Kafka logs there, for programs that wait "
        "for these lines.",
        importance=LOW,
    )

    config_providers: tuple[str, ...] = honoured(
        Kind.LIST,
        (),
        "The names of config providers, each with `config.providers.<name>.class`: Kafka's "
        "FileConfigProvider, DirectoryConfigProvider or EnvVarConfigProvider. Values of settings "
        "may then have `${name:path:key}`. A variable without a value stops the start.",
        importance=LOW,
    )
    auto_create_topics_enable: bool = honoured(
        Kind.BOOLEAN, True, "Create a topic when a client first requests it.", importance=HIGH
    )
    delete_topic_enable: bool = honoured(Kind.BOOLEAN, True, "Allow DeleteTopics.", importance=HIGH)
    num_partitions: int = honoured(
        Kind.INT, 1, "Partitions of a new topic, if the request names no number.", at_least(1)
    )
    default_replication_factor: int = honoured(
        Kind.INT, 1, "Replicas of a new topic, if the request names no number.", at_least(1)
    )

    replica_lag_time_max_ms: int = honoured(
        Kind.LONG,
        30_000,
        "A follower leaves the ISR if it has not had all records of its leader for this long.",
        at_least(1),
        importance=HIGH,
    )
    replica_fetch_wait_max_ms: int = honoured(
        Kind.INT,
        500,
        "A leader responds to a follower's Fetch after this time at the latest. It must be less "
        "than replica.lag.time.max.ms.",
        at_least(0),
        importance=HIGH,
    )
    replica_socket_timeout_ms: int = honoured(
        Kind.INT,
        30_000,
        "A follower connects to its leader again if its Fetch gets no response for this long. It "
        "must be at least replica.fetch.wait.max.ms. Kafka has no minimum.",
        at_least(1),
        importance=HIGH,
    )
    replica_fetch_min_bytes: int = honoured(
        Kind.INT,
        1,
        "A leader responds to a follower's Fetch as soon as it has this many bytes of records.",
        at_least(0),
        importance=HIGH,
    )
    replica_fetch_max_bytes: int = honoured(
        Kind.INT,
        1_048_576,
        "Maximum size of the records of one partition in the response to a follower. A larger "
        "first batch is still sent.",
        at_least(0),
    )
    replica_fetch_response_max_bytes: int = honoured(
        Kind.INT,
        10_485_760,
        "Maximum size of the records in the response to a follower. A larger first batch is still "
        "sent.",
        at_least(0),
    )
    replica_fetch_backoff_ms: int = honoured(
        Kind.INT,
        1_000,
        "Time after which a follower fetches again after an error or a lost connection.",
        at_least(0),
    )

    oncelog_max_partitions: int = honoured(
        Kind.INT,
        20_000,
        "Maximum number of partitions of all topics together, without internal topics; more are "
        "refused with POLICY_VIOLATION. Each takes about 7 KiB of memory, and 1 to 3 ms of every "
        "start.",
        at_least(1),
        importance=LOW,
    )
    oncelog_flush_on_ack: bool = honoured(
        Kind.BOOLEAN,
        False,
        "true: the response to acks=all, to a commit of offsets or to the end of a transaction "
        "waits until its records are fdatasynced; one fdatasync serves many responses. What was "
        "acknowledged survives SIGKILL and power loss. false (Kafka's way): records are with the "
        "operating system when they are acknowledged. They survive SIGKILL of the broker. After a "
        "power loss the broker starts, but the last records may be lost.",
        importance=HIGH,
    )
    oncelog_validate_records: bool = honoured(
        Kind.BOOLEAN,
        False,
        "true: every record inside a produced batch is decoded and checked. false: header, record "
        "count and CRC are checked, and records only where a topic setting needs it.",
    )

"""Honoured settings of the transaction and group coordinators and of producer state."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog_server.settings.table import Importance, Kind, at_least, honoured

HIGH, LOW = Importance.HIGH, Importance.LOW


@dataclass(frozen=True, init=False, repr=False, eq=False)  # `Settings` has all of these
class CoordinatorSettings:
    """Names, defaults and ranges are Kafka 4.3's, unless the sentence says otherwise."""

    transaction_max_timeout_ms: int = honoured(
        Kind.INT,
        900_000,
        "The longest transaction.timeout.ms a producer may ask for.",
        at_least(1),
        importance=HIGH,
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = honoured(
        Kind.INT,
        1000,
        "How often is looked for transactions past their timeout. Kafka's default is 10000: a "
        "crashed producer would hold its readers up for that much longer.",
        at_least(1),
        importance=LOW,
    )
    transaction_partition_verification_enable: bool = honoured(
        Kind.BOOLEAN,
        True,
        "Whether the leader asks the coordinator before it takes the first batch of a transaction "
        "from a client that adds its partitions itself (KIP-890).",
    )
    transaction_two_phase_commit_enable: bool = honoured(
        Kind.BOOLEAN,
        False,
        "Whether transactions may take part in two-phase commit (KIP-939): they have no timeout, "
        "and a new instance may keep one that is open and end it.",
        importance=LOW,
    )
    transaction_state_log_num_partitions: int = honoured(
        Kind.INT, 50, "Partitions of __transaction_state.", at_least(1), importance=HIGH
    )
    transaction_state_log_replication_factor: int = honoured(
        Kind.SHORT,
        3,
        "Replicas of __transaction_state; fewer if there are fewer brokers when it is created.",
        at_least(1),
        importance=HIGH,
    )
    transaction_state_log_min_isr: int = honoured(
        Kind.INT,
        2,
        "min.insync.replicas of __transaction_state; never more than it has replicas.",
        at_least(1),
        importance=HIGH,
    )
    transaction_state_log_segment_bytes: int = honoured(
        Kind.INT,
        104_857_600,
        "segment.bytes of __transaction_state.",
        at_least(1),
        importance=HIGH,
    )
    group_transactions_enable: bool = honoured(
        Kind.BOOLEAN,
        True,
        "Transactional producers may belong to a consumer group, whose generations fence "
        "them, and be committed together (feature oncelog.group.transactions).",
        importance=LOW,
    )
    transactional_id_expiration_ms: int = honoured(
        Kind.INT,
        604_800_000,
        "A transactional id that was not used for so long, and has nothing open, is forgotten.",
        at_least(1),
        importance=HIGH,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = honoured(
        Kind.INT,
        3_600_000,
        "How often is looked for expired transactional ids.",
        at_least(1),
        importance=LOW,
    )
    producer_id_expiration_ms: int = honoured(
        Kind.INT,
        86_400_000,
        "A partition forgets a producer id that wrote nothing for so long, by the broker's time.",
        at_least(1),
        importance=LOW,
    )
    producer_id_expiration_check_interval_ms: int = honoured(
        Kind.INT,
        600_000,
        "How often is looked for expired producer ids.",
        at_least(1),
        importance=LOW,
    )
    oncelog_max_producer_ids_per_partition: int = honoured(
        Kind.INT,
        100_000,
        "Producer ids that a partition remembers: a batch of one more is refused with "
        "POLICY_VIOLATION until others have expired.",
        at_least(1),
        importance=LOW,
    )
    oncelog_max_producer_ids_per_address: int = honoured(
        Kind.INT,
        200_000,
        "Producer ids and transactional ids given to clients of one address (of one /64 for IPv6) "
        "within producer.id.expiration.ms; one more is refused with POLICY_VIOLATION.",
        at_least(1),
        importance=LOW,
    )

    group_min_session_timeout_ms: int = honoured(
        Kind.INT, 6000, "The shortest session timeout of a member of a classic group."
    )
    group_max_session_timeout_ms: int = honoured(
        Kind.INT, 1_800_000, "The longest session timeout of a member of a classic group."
    )
    group_initial_rebalance_delay_ms: int = honoured(
        Kind.INT, 3000, "How long an empty group waits for more members before it rebalances."
    )
    group_max_size: int = honoured(
        Kind.INT, 2**31 - 1, "Members of a classic group at most.", at_least(1)
    )
    offset_metadata_max_bytes: int = honoured(
        Kind.INT, 4096, "The longest metadata of a committed offset.", importance=HIGH
    )
    offsets_retention_minutes: int = honoured(
        Kind.INT,
        10_080,
        "How long the offsets of an empty group are kept.",
        at_least(1),
        importance=HIGH,
    )
    offsets_retention_check_interval_ms: int = honoured(
        Kind.LONG, 600_000, "How often is looked for expired offsets.", at_least(1), importance=HIGH
    )
    offsets_topic_num_partitions: int = honoured(
        Kind.INT, 50, "Partitions of __consumer_offsets.", at_least(1), importance=HIGH
    )
    offsets_topic_replication_factor: int = honoured(
        Kind.SHORT,
        3,
        "Replicas of __consumer_offsets; fewer if there are fewer brokers when it is created.",
        at_least(1),
        importance=HIGH,
    )
    offsets_topic_segment_bytes: int = honoured(
        Kind.INT, 104_857_600, "segment.bytes of __consumer_offsets.", at_least(1), importance=HIGH
    )

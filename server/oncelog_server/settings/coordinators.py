"""Honored settings of the transaction and group coordinators and of producer state."""

from __future__ import annotations

from oncelog_server.settings.immutable import ImmutableSettings
from oncelog_server.settings.table import Importance, Kind, at_least, honoured

HIGH, LOW = Importance.HIGH, Importance.LOW


class CoordinatorSettings(ImmutableSettings):
    """Names, defaults and ranges are Kafka 4.3's, unless the text of a setting says otherwise."""

    transaction_max_timeout_ms: int = honoured(
        Kind.INT,
        900_000,
        "Maximum transaction.timeout.ms of a producer.",
        at_least(1),
        importance=HIGH,
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = honoured(
        Kind.INT,
        1000,
        "Interval between searches for transactions past their timeout. Kafka's default is 10000. "
        "With a longer interval, readers wait longer behind a crashed producer's open transaction.",
        at_least(1),
        importance=LOW,
    )
    transaction_partition_verification_enable: bool = honoured(
        Kind.BOOLEAN,
        True,
        "Verify a partition with the coordinator before the first batch of a transaction, for "
        "clients that add partitions themselves (KIP-890).",
    )
    add_partitions_to_txn_retry_backoff_ms: int = honoured(
        Kind.INT,
        20,
        "Interval between attempts to add a partition to a transaction while the producer's last "
        "transaction completes.",
        at_least(1),
        importance=HIGH,
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = honoured(
        Kind.INT,
        100,
        "Time limit of these attempts. Then the client gets CONCURRENT_TRANSACTIONS.",
        at_least(0),
        importance=HIGH,
    )
    transaction_two_phase_commit_enable: bool = honoured(
        Kind.BOOLEAN,
        False,
        "Allow two-phase commit (KIP-939): such a transaction has no timeout, and a new instance "
        "of its producer may keep it open and end it.",
        importance=LOW,
    )
    transaction_state_log_num_partitions: int = honoured(
        Kind.INT, 50, "Partitions of __transaction_state.", at_least(1), importance=HIGH
    )
    transaction_state_log_replication_factor: int = honoured(
        Kind.SHORT,
        3,
        "Replicas of __transaction_state, at most as many as there are brokers at its creation.",
        at_least(1),
        importance=HIGH,
    )
    transaction_state_log_min_isr: int = honoured(
        Kind.INT,
        2,
        "min.insync.replicas of __transaction_state, at most as many as it has replicas.",
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
        "Allow transactional producers that belong to a consumer group: the group's generations "
        "fence them, and one request can commit them all (feature oncelog.group.transactions).",
        importance=LOW,
    )
    transactional_id_expiration_ms: int = honoured(
        Kind.INT,
        604_800_000,
        "Time after which an unused transactional id without an open transaction is removed.",
        at_least(1),
        importance=HIGH,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = honoured(
        Kind.INT,
        3_600_000,
        "Interval between searches for expired transactional ids.",
        at_least(1),
        importance=LOW,
    )
    producer_id_expiration_ms: int = honoured(
        Kind.INT,
        86_400_000,
        "Time without a write after which a partition removes a producer id (broker's clock).",
        at_least(1),
        importance=LOW,
    )
    producer_id_expiration_check_interval_ms: int = honoured(
        Kind.INT,
        600_000,
        "Interval between searches for expired producer ids.",
        at_least(1),
        importance=LOW,
    )
    oncelog_max_producer_ids_per_partition: int = honoured(
        Kind.INT,
        100_000,
        "Maximum number of producer ids in a partition. A batch of a further id is refused with "
        "POLICY_VIOLATION until others have expired.",
        at_least(1),
        importance=LOW,
    )
    oncelog_max_producer_ids_per_address: int = honoured(
        Kind.INT,
        200_000,
        "Maximum number of producer ids and transactional ids assigned to one principal within "
        "producer.id.expiration.ms; further ones are refused with POLICY_VIOLATION. Clients that "
        "have not authenticated are counted by address (by /64 for IPv6).",
        at_least(1),
        importance=LOW,
    )

    group_min_session_timeout_ms: int = honoured(
        Kind.INT, 6000, "Minimum session timeout of a member of a classic group."
    )
    group_max_session_timeout_ms: int = honoured(
        Kind.INT, 1_800_000, "Maximum session timeout of a member of a classic group."
    )
    group_initial_rebalance_delay_ms: int = honoured(
        Kind.INT, 3000, "How long an empty group waits for more members before it rebalances."
    )
    group_max_size: int = honoured(
        Kind.INT, 2**31 - 1, "Maximum number of members of a classic group.", at_least(1)
    )
    offset_metadata_max_bytes: int = honoured(
        Kind.INT, 4096, "Maximum length of the metadata of a committed offset.", importance=HIGH
    )
    offsets_retention_minutes: int = honoured(
        Kind.INT,
        10_080,
        "How long the offsets of an empty group are kept.",
        at_least(1),
        importance=HIGH,
    )
    offsets_retention_check_interval_ms: int = honoured(
        Kind.LONG,
        600_000,
        "Interval between searches for expired offsets.",
        at_least(1),
        importance=HIGH,
    )
    offsets_topic_num_partitions: int = honoured(
        Kind.INT, 50, "Partitions of __consumer_offsets.", at_least(1), importance=HIGH
    )
    offsets_topic_replication_factor: int = honoured(
        Kind.SHORT,
        3,
        "Replicas of __consumer_offsets, at most as many as there are brokers at its creation.",
        at_least(1),
        importance=HIGH,
    )
    offsets_topic_segment_bytes: int = honoured(
        Kind.INT, 104_857_600, "segment.bytes of __consumer_offsets.", at_least(1), importance=HIGH
    )

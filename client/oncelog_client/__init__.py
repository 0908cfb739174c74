"""A thin async client of oncelog and Apache Kafka. Names follow Kafka's Java client in snake case."""

from __future__ import annotations

from .errors import (
    AbortableError,
    AuthorizationError,
    BufferExhaustedError,
    ClosedError,
    CommitFailedError,
    CommitOutcomeUnknown,
    ConfigError,
    DisconnectedError,
    FatalError,
    FencedInstanceError,
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    RebalanceInProgressError,
    RecordTooLargeError,
    RetriableError,
    SettingsWarning,
    StaleCoordinatorError,
    StaleLeaderError,
    TimedOutError,
    TransactionAbortedError,
    UnsupportedVersionError,
)
from .producer import Producer
from .values import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    Header,
    Node,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    RecordMetadata,
    TopicPartition,
)

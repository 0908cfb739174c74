"""A thin async client of oncelog and Apache Kafka, named as Kafka's Java client in snake case.

A name is loaded at its first use, so that the import of a single module does not load all modules.
"""

from __future__ import annotations

# Type checkers take TYPE_CHECKING for true. Importing it from `typing` would take most of the time
# of this module's import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .admin import Admin, AlterConfigOp, ConfigResource, NewTopic, ResourceType
    from .consumer import Consumer
    from .core.prepared_txn_state import PreparedTxnState
    from .errors import (
        AbortableError,
        AuthenticationError,
        AuthorizationError,
        BufferExhaustedError,
        ClosedError,
        CommitFailedError,
        CommitOutcomeUnknown,
        ConfigError,
        DisconnectedError,
        FatalError,
        FencedInGroupError,
        FencedInstanceError,
        GroupCommitError,
        IllegalStateError,
        KafkaError,
        NoOffsetForPartitionError,
        OffsetOutOfRangeError,
        ProducerFencedError,
        RebalanceInProgressError,
        RecordDeserializationError,
        RecordTooLargeError,
        RetriableError,
        SerializationError,
        SettingsWarning,
        StaleCoordinatorError,
        StaleLeaderError,
        TimedOutError,
        TransactionAbortedError,
        TransactionGoneError,
        UnsupportedVersionError,
    )
    from .io.group_session import RebalanceListener
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
        TransactionGroup,
        TransactionMember,
    )

_HOMES = {
    "AbortableError": "errors",
    "Admin": "admin",
    "AlterConfigOp": "admin",
    "AuthenticationError": "errors",
    "AuthorizationError": "errors",
    "BufferExhaustedError": "errors",
    "ClosedError": "errors",
    "CommitFailedError": "errors",
    "CommitOutcomeUnknown": "errors",
    "ConfigError": "errors",
    "ConfigResource": "admin",
    "Consumer": "consumer",
    "ConsumerGroupMetadata": "values",
    "ConsumerRecord": "values",
    "DisconnectedError": "errors",
    "FatalError": "errors",
    "FencedInGroupError": "errors",
    "FencedInstanceError": "errors",
    "GroupCommitError": "errors",
    "Header": "values",
    "IllegalStateError": "errors",
    "KafkaError": "errors",
    "NewTopic": "admin",
    "NoOffsetForPartitionError": "errors",
    "Node": "values",
    "OffsetAndMetadata": "values",
    "OffsetAndTimestamp": "values",
    "OffsetOutOfRangeError": "errors",
    "PartitionInfo": "values",
    "PreparedTxnState": "core.prepared_txn_state",
    "Producer": "producer",
    "ProducerFencedError": "errors",
    "RebalanceInProgressError": "errors",
    "RebalanceListener": "io.group_session",
    "RecordDeserializationError": "errors",
    "RecordMetadata": "values",
    "RecordTooLargeError": "errors",
    "ResourceType": "admin",
    "RetriableError": "errors",
    "SerializationError": "errors",
    "SettingsWarning": "errors",
    "StaleCoordinatorError": "errors",
    "StaleLeaderError": "errors",
    "TimedOutError": "errors",
    "TopicPartition": "values",
    "TransactionAbortedError": "errors",
    "TransactionGoneError": "errors",
    "TransactionGroup": "values",
    "TransactionMember": "values",
    "UnsupportedVersionError": "errors",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported here, because `oncelog health` uses no name, and saves a twentieth of its time.
    from importlib import import_module

    found: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return list(__all__)


__all__ = [
    "AbortableError",
    "Admin",
    "AlterConfigOp",
    "AuthenticationError",
    "AuthorizationError",
    "BufferExhaustedError",
    "ClosedError",
    "CommitFailedError",
    "CommitOutcomeUnknown",
    "ConfigError",
    "ConfigResource",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "DisconnectedError",
    "FatalError",
    "FencedInGroupError",
    "FencedInstanceError",
    "GroupCommitError",
    "Header",
    "IllegalStateError",
    "KafkaError",
    "NewTopic",
    "NoOffsetForPartitionError",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRangeError",
    "PartitionInfo",
    "PreparedTxnState",
    "Producer",
    "ProducerFencedError",
    "RebalanceInProgressError",
    "RebalanceListener",
    "RecordDeserializationError",
    "RecordMetadata",
    "RecordTooLargeError",
    "ResourceType",
    "RetriableError",
    "SerializationError",
    "SettingsWarning",
    "StaleCoordinatorError",
    "StaleLeaderError",
    "TimedOutError",
    "TopicPartition",
    "TransactionAbortedError",
    "TransactionGoneError",
    "TransactionGroup",
    "TransactionMember",
    "UnsupportedVersionError",
]

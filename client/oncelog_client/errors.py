"""Errors as classes: retriable, abortable, fatal (the groups of KIP-1050).

Every error carries Kafka's error code, and `error_for` is the one table from code to class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from oncelog_protocol.errors import RETRIABLE, ErrorCode

from .connect_failures import ConnectFailure, described

if TYPE_CHECKING:
    from .values import ConsumerRecord


class KafkaError(Exception):
    """Any failure of the client. `code` is the error code of the broker, or the nearest error code.

    A plain KafkaError is a refused call. A retry of the call would be refused too; other calls are
    not affected.
    """

    default_code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR
    # True if the client raises the error without a request. The text then has no error code.
    is_local: ClassVar[bool] = False
    # True if the record was certainly not written, False if it may have been written.
    not_written: bool = False

    def __init__(self, message: str = "", code: ErrorCode | None = None) -> None:
        self.code = self.default_code if code is None else code
        super().__init__()
        self.reword(message)

    def reword(self, message: str) -> None:
        """Replace the message by a more precise message. The code stays."""
        self.message = message
        text = message if self.is_local else f"{self.code.name}: {message}"
        self.args = (text if message else self.code.name,)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle would pass the formatted text as message, and lose the code.
        return (_restored, (type(self), self.args, self.__dict__))


def _restored(
    kind: type[KafkaError], args: tuple[Any, ...], attributes: dict[str, Any]
) -> KafkaError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class RetriableError(KafkaError):
    """A retry may succeed. The client has retried until its deadline.

    `failures`: if no broker could be reached, the reason for each address that was tried.
    """

    failures: tuple[ConnectFailure, ...] = ()


class AbortableError(KafkaError):
    """The transaction cannot be committed any more: abort it, and do its work again."""


class FatalError(KafkaError):
    """The producer (or the static member) cannot be used any more: close it."""


class ConfigError(KafkaError, ValueError):
    """A setting, or a combination of two settings, that the client cannot honor. The error is
    raised before any connect."""

    default_code = ErrorCode.INVALID_CONFIG


class SerializationError(KafkaError):
    """A serializer failed at a key or value, so the record was not sent. The cause is the error of
    the serializer."""

    default_code = ErrorCode.INVALID_RECORD
    is_local = True
    not_written = True


class RecordDeserializationError(KafkaError):
    """A deserializer failed at a record. The position stays before the record: seek to
    `record.offset + 1`, or every poll raises this error (KIP-334).

    `record` has the key and value as bytes. The cause is the error of the deserializer.
    """

    default_code = ErrorCode.INVALID_RECORD
    is_local = True

    record: ConsumerRecord


class SettingsWarning(UserWarning):
    """A setting has no effect because another setting excludes it."""


class IllegalStateError(KafkaError):
    """A call in the wrong state, such as a commit without a transaction. The message names the call
    that must come first."""

    is_local = True
    default_code = ErrorCode.INVALID_TXN_STATE


class ClosedError(KafkaError):
    """The producer, consumer or admin client has been closed, or was not started."""

    is_local = True


class TimedOutError(RetriableError):
    """The deadline expired without a response. Unless the message says otherwise, the request may
    have taken effect."""

    default_code = ErrorCode.REQUEST_TIMED_OUT


class DisconnectedError(RetriableError):
    """The connection could not be opened, or broke. `sent`: True if the request was sent before."""

    default_code = ErrorCode.NETWORK_EXCEPTION

    def __init__(
        self, message: str = "", code: ErrorCode | None = None, sent: bool = False
    ) -> None:
        super().__init__(message, code)
        self.sent = sent


class ConnectError(DisconnectedError):
    """The connect to a broker failed, or every connect to several brokers failed. No request was
    sent.

    `failures` has a ConnectFailure (address, cause, detail) for each address that was tried. Its
    `cause` is a ConnectCause: REFUSED, NO_SUCH_HOST, HTTP, TLS, SILENT and so on.
    """

    def __init__(self, *failures: ConnectFailure) -> None:
        super().__init__(described(failures))
        self.failures = failures

    @property
    def is_lasting(self) -> bool:
        """Return True if the cause of each failure is lasting (`ConnectCause.is_lasting`). An
        immediate retry would then fail too."""
        return all(failure.cause.is_lasting for failure in self.failures)


class AuthenticationError(FatalError):
    """The broker refuses the credentials or the certificate of this client, or this client does not
    trust the broker's certificate. The client does not retry, as Kafka's clients do not.

    `failures` has a ConnectFailure (address, cause, detail). Its cause is AUTHENTICATION_FAILED,
    UNTRUSTED, NOT_VALID_NOW, WRONG_HOST or CERTIFICATE_REFUSED. If the error came in a response,
    `failures` is empty.
    """

    default_code = ErrorCode.SASL_AUTHENTICATION_FAILED

    def __init__(
        self,
        message: str = "",
        code: ErrorCode | None = None,
        failures: tuple[ConnectFailure, ...] = (),
    ) -> None:
        self.failures = failures
        super().__init__(message or described(failures), code)

    def reword(self, message: str) -> None:
        """Replace the message. With `failures` the text has no code: the causes say more, and a
        certificate has no code in Kafka's protocol."""
        super().reword(message)
        if self.failures:
            self.args = (message,)


class StaleLeaderError(RetriableError):
    """The broker does not lead the partition (any more)."""


class StaleCoordinatorError(RetriableError):
    """The broker is not the coordinator (yet, or any more)."""


class IncompleteResponseError(RetriableError):
    """A response has no error code, but no result for some of the requested topics, partitions or
    groups. A change that was requested for them may have taken effect or not. The client has
    retried until its deadline."""

    default_code = ErrorCode.CORRUPT_MESSAGE


class BufferExhaustedError(RetriableError):
    """`buffer_memory` stayed full for `max_block_ms`."""

    default_code = ErrorCode.REQUEST_TIMED_OUT


class RecordTooLargeError(KafkaError):
    """A record is larger than `max_request_size`, `buffer_memory` or the topic's
    `max.message.bytes`, or a fetched batch is larger, after decompression, than the consumer's
    limit."""

    default_code = ErrorCode.MESSAGE_TOO_LARGE


class UnsupportedVersionError(KafkaError):
    """The broker speaks no version of the request with all requested fields."""

    default_code = ErrorCode.UNSUPPORTED_VERSION


class AuthorizationError(KafkaError):
    """The principal is not authorized for the call.

    `operation`: the operation that a call of an admin client needs on the resource, such as
    `DESCRIBE`. It is empty if it is unknown.
    """

    default_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    operation: str = ""


class OffsetOutOfRangeError(KafkaError):
    """A position outside the log, or in a part that the log has lost, with
    `auto_offset_reset="none"`."""

    default_code = ErrorCode.OFFSET_OUT_OF_RANGE


class NoOffsetForPartitionError(KafkaError):
    """No committed offset, with `auto_offset_reset="none"`."""

    default_code = ErrorCode.OFFSET_OUT_OF_RANGE


class CommitFailedError(KafkaError):
    """The commit was refused, because the member is not in the group's present generation. Its
    partitions may belong to another member."""

    default_code = ErrorCode.UNKNOWN_MEMBER_ID


class RebalanceInProgressError(KafkaError):
    """The group is rebalancing: poll, then commit what is still assigned."""

    default_code = ErrorCode.REBALANCE_IN_PROGRESS


class FencedInstanceError(FatalError):
    """Another member uses the same `group_instance_id`."""

    default_code = ErrorCode.FENCED_INSTANCE_ID


class ProducerFencedError(FatalError):
    """A newer producer has taken this transactional id (or its producer id)."""

    default_code = ErrorCode.PRODUCER_FENCED


class FencedInGroupError(AbortableError):
    """The producer has lost its input partitions: its consumer group has a newer generation, or
    another producer of the group has taken over. The transaction is aborted. Poll until the
    consumer is in the new generation, and call `init_transactions` with the new assignment. The
    producer need not be closed."""

    default_code = ErrorCode.ILLEGAL_GENERATION


class GroupCommitError(AbortableError):
    """A group commit was refused, and no transaction was decided. In a group commit one producer,
    the parent, commits its transaction together with those of the members. `member` is the
    transactional id that caused the refusal: of a member, or of the parent if it was not
    initialized with the group."""

    def __init__(
        self, message: str = "", code: ErrorCode | None = None, *, member: str = ""
    ) -> None:
        super().__init__(message, code)
        self.member = member


class TransactionGoneError(KafkaError):
    """The transaction is not open, and it did not end with the requested outcome. It timed out, was
    fenced, or had the other outcome. This call has changed nothing."""

    default_code = ErrorCode.PRODUCER_FENCED


class TransactionAbortedError(AbortableError):
    """The record was dropped because its transaction is being aborted."""

    default_code = ErrorCode.TRANSACTION_ABORTABLE


class CommitOutcomeUnknown(KafkaError):
    """A commit was sent and got no response. The outcome of the commit is unknown.

    The transaction may be committed or not, so the client never aborts it. Unless `fatal`, the only
    allowed call is `commit_transaction()`, which repeats the request. If `fatal`, this producer was
    fenced meanwhile and cannot find out the outcome: read the committed offsets.
    """

    default_code = ErrorCode.REQUEST_TIMED_OUT

    def __init__(
        self, message: str = "", code: ErrorCode | None = None, *, fatal: bool = False
    ) -> None:
        super().__init__(message, code)
        self.fatal = fatal


_SPECIFIC: Final[dict[ErrorCode, type[KafkaError]]] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: OffsetOutOfRangeError,
    ErrorCode.MESSAGE_TOO_LARGE: RecordTooLargeError,
    ErrorCode.RECORD_LIST_TOO_LARGE: RecordTooLargeError,
    ErrorCode.REQUEST_TIMED_OUT: TimedOutError,
    ErrorCode.NETWORK_EXCEPTION: DisconnectedError,
    ErrorCode.UNSUPPORTED_VERSION: UnsupportedVersionError,
    # The request belongs to another broker.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: StaleLeaderError,
    ErrorCode.LEADER_NOT_AVAILABLE: StaleLeaderError,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: StaleLeaderError,
    ErrorCode.REPLICA_NOT_AVAILABLE: StaleLeaderError,
    ErrorCode.FENCED_LEADER_EPOCH: StaleLeaderError,
    ErrorCode.UNKNOWN_LEADER_EPOCH: StaleLeaderError,
    ErrorCode.KAFKA_STORAGE_ERROR: StaleLeaderError,
    ErrorCode.UNKNOWN_TOPIC_ID: StaleLeaderError,
    ErrorCode.INCONSISTENT_TOPIC_ID: StaleLeaderError,
    ErrorCode.NOT_CONTROLLER: StaleLeaderError,
    ErrorCode.NOT_COORDINATOR: StaleCoordinatorError,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: StaleCoordinatorError,
    # Groups.
    ErrorCode.ILLEGAL_GENERATION: CommitFailedError,
    ErrorCode.UNKNOWN_MEMBER_ID: CommitFailedError,
    ErrorCode.STALE_MEMBER_EPOCH: CommitFailedError,
    ErrorCode.REBALANCE_IN_PROGRESS: RebalanceInProgressError,
    ErrorCode.FENCED_INSTANCE_ID: FencedInstanceError,
    # Transactions.
    ErrorCode.TRANSACTION_ABORTABLE: AbortableError,
    ErrorCode.INVALID_PRODUCER_EPOCH: ProducerFencedError,
    ErrorCode.PRODUCER_FENCED: ProducerFencedError,
    ErrorCode.INVALID_TXN_STATE: FatalError,
    ErrorCode.CONCURRENT_PRODUCER_COMMIT: FencedInGroupError,
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: FatalError,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: FatalError,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: AbortableError,
    ErrorCode.UNKNOWN_PRODUCER_ID: AbortableError,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: AbortableError,
    # Rights.
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.SASL_AUTHENTICATION_FAILED: AuthenticationError,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: AuthorizationError,
}

ERROR_CLASSES: Final[dict[ErrorCode, type[KafkaError]]] = {
    code: _SPECIFIC.get(code, RetriableError if code in RETRIABLE else KafkaError)
    for code in ErrorCode
    if code != ErrorCode.NONE
}


def error_for(code: int, message: str | None = "") -> KafkaError:
    """Return the exception for the error code of a response. An unknown code is
    UNKNOWN_SERVER_ERROR."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return KafkaError(f"error code {code}, which this client does not know. {message or ''}")
    return ERROR_CLASSES[known](message or "", known)


def check(code: int, message: str | None = "") -> None:
    """Raise the exception of `code` unless it is NONE."""
    if code != 0:
        raise error_for(code, message)

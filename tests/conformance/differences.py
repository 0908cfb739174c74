"""The intended differences between oncelog and Apache Kafka 4.3.1, each with its reason.

The last section of docs/semantics.md has the list for readers, with the test of each case. Any
other difference between Kafka and oncelog is a defect of one of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from oncelog_protocol.errors import ErrorCode

# Stands for an error code: the broker closes the connection without a response.
CLOSED: Final = "closed"


@dataclass(frozen=True, slots=True)
class Difference:
    """One case: the response of each broker (a code, or CLOSED), and the reason for oncelog's
    response."""

    case: str
    kafka: ErrorCode | str
    oncelog: ErrorCode | str
    source: str

    def expected(self, target: str) -> str:
        """Return the expected result on this target: the name of the code, or CLOSED."""
        answer = self.kafka if target == "kafka" else self.oncelog
        return answer.name if isinstance(answer, ErrorCode) else answer


# --- errors of a producer in a transaction

COMMIT_AFTER_ABORT = Difference(
    case="EndTxn v5 wants to commit with the epoch of a transaction that has been aborted",
    kafka=ErrorCode.INVALID_TXN_STATE,
    oncelog=ErrorCode.PRODUCER_FENCED,
    source="KAFKA-20785: the transaction timed out, which fences its producer; the producer has "
    "not misused the protocol",
)
ZOMBIE_ASKS_ITS_EPOCH = Difference(
    case="InitProducerId v4+ names a stale epoch while a transaction is open",
    kafka=ErrorCode.CONCURRENT_TRANSACTIONS,
    oncelog=ErrorCode.PRODUCER_FENCED,
    source="a zombie is refused and changes nothing: Kafka aborts the live producer's transaction "
    "before it checks the epoch, and refuses the zombie only at its retry",
)
COMMIT_AFTER_A_ZOMBIE_ASKED = Difference(
    case="EndTxn v5 of the live producer, after the zombie's InitProducerId",
    kafka=ErrorCode.INVALID_TXN_STATE,
    oncelog=ErrorCode.NONE,
    source="as ZOMBIE_ASKS_ITS_EPOCH",
)
NEXT_EPOCH_OF_ANOTHER_USER = Difference(
    case="a batch with the producer id of another user, and with the next epoch",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    source="a producer id belongs to the principal that got it, which KIP-98 leaves open",
)
PRODUCER_FENCED_BY_ANOTHER_USER = Difference(
    case="the next batch of the user's own producer, after that",
    kafka=ErrorCode.INVALID_PRODUCER_EPOCH,
    oncelog=ErrorCode.NONE,
    source="as NEXT_EPOCH_OF_ANOTHER_USER",
)
ABORT_OF_A_PART = Difference(
    case="WriteTxnMarkers of an operator, for a transaction that the coordinator will end",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.INVALID_TXN_STATE,
    source="the transaction would be aborted in one partition and could be committed in the others",
)
NEWER_EPOCH_IN_AN_OPEN_TRANSACTION = Difference(
    case="a batch of a newer epoch in a partition with an open transaction of an older epoch",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.INVALID_TXN_STATE,
    source="one COMMIT would make both transactions visible (I4); the case occurs only after a "
    "loss of the coordinator's log, or with transaction.partition.verification.enable=false",
)

FORGED_PRODUCER_ID = Difference(
    case="the first batch of a producer id that no InitProducerId has assigned",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.UNKNOWN_PRODUCER_ID,
    source="a later producer will get the id, and its first batch would count as a retry",
)
BUMP_TO_THE_LAST_EPOCH = Difference(
    case="InitProducerId after a timeout of the transaction at epoch 32765",
    kafka=ErrorCode.UNKNOWN_SERVER_ERROR,
    oncelog=ErrorCode.NONE,
    source="to abort the transaction, Kafka has bumped the epoch to the last one, and cannot bump "
    "it again",
)
RETRY_AT_THE_LAST_EPOCH = Difference(
    case="a retried InitProducerId after a timeout of the transaction at epoch 32766",
    kafka=ErrorCode.PRODUCER_FENCED,
    oncelog=ErrorCode.NONE,
    source="after a lost response, the retry gets the same response (R14, E5)",
)

# --- offsets of a group

OLDER_COMMITS_AGAIN = Difference(
    case="TxnOffsetCommit of a producer with a pending offset, after another producer of the group "
    "has committed an offset of the same partition",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.INVALID_PRODUCER_EPOCH,
    source="upgrade fencing of KIP-447's early draft: a partition has one owner in its group, and "
    "in Kafka both producers would commit; with group.transactions.enable=false oncelog responds "
    "as Kafka does",
)
OLDER_ENDS = Difference(
    case="EndTxn of that producer",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.PRODUCER_FENCED,
    source="as OLDER_COMMITS_AGAIN",
)
OFFSETS_UNDER_ANOTHER_NAME = Difference(
    case="TxnOffsetCommit with a transactional id that differs from the open transaction's",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    source="the client of one id cannot write as the producer of another id (Z16): Kafka does not "
    "check the id once the group's partition is in the transaction",
)
GROUP_WITH_PENDING_OFFSETS = Difference(
    case="DeleteGroups of an empty group while a transaction has pending offsets of the group",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.NON_EMPTY_GROUP,
    source="a commit is not lost silently (O10): in Kafka the transaction commits, but its offset "
    "is lost",
)

# --- limits that protect a broker of one process from clients

TOO_MANY_ELEMENTS = Difference(
    case="a request with more array elements than request_limits.py allows",
    kafka=ErrorCode.NONE,
    oncelog=CLOSED,
    source="no request blocks the event loop for more than about 50 ms (H21, H26, H30)",
)
STANDING_FRAME = Difference(
    case="a request without a further byte for 30 s",
    kafka=ErrorCode.NONE,
    oncelog=CLOSED,
    source="a slow sender must not hold memory (H6)",
)
IDS_OF_AN_ADDRESS = Difference(
    case="InitProducerId beyond oncelog.max.producer.ids.per.address",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.POLICY_VIOLATION,
    source="live producer ids have limits, and a client beyond a limit gets a clear error "
    "(H60, H61)",
)
PRODUCERS_OF_A_PARTITION = Difference(
    case="a batch beyond oncelog.max.producer.ids.per.partition",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.POLICY_VIOLATION,
    source="as IDS_OF_AN_ADDRESS",
)
PATTERN = Difference(
    case="ListTransactions v2 with a pattern of flags, Unicode classes, POSIX classes or word "
    "boundaries",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.INVALID_REGULAR_EXPRESSION,
    source="our own matcher needs linear time for any pattern (H31), and refuses syntax that it "
    "does not know",
)

# --- contents of the log

RECORDS_INSIDE = Difference(
    case="a batch with a valid CRC and invalid records",
    kafka=ErrorCode.INVALID_RECORD,
    oncelog=ErrorCode.NONE,
    source="oncelog decodes records only if a setting needs that; with "
    "oncelog.validate.records=true it responds as Kafka does",
)
INTERNAL_TOPIC_BY_NAME = Difference(
    case="a batch with a wrong CRC for an internal topic, from a client id `__admin_client`",
    kafka=ErrorCode.CORRUPT_MESSAGE,
    oncelog=ErrorCode.INVALID_TOPIC_EXCEPTION,
    source="a client id is never a credential: Kafka would write a valid batch",
)
PARTITIONS_OF_INTERNAL_TOPICS = Difference(
    case="CreatePartitions of an internal topic",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.INVALID_REQUEST,
    source="the partition count decides which broker coordinates an id or a group",
)

UNKNOWN_ISOLATION = Difference(
    case="Fetch and ListOffsets with an isolation level that does not exist",
    kafka=ErrorCode.UNKNOWN_SERVER_ERROR,
    oncelog=ErrorCode.INVALID_REQUEST,
    source="the client made the error, not the broker",
)
BESIDE_AN_UNKNOWN_FORMAT = Difference(
    case="a batch, if another batch of the same Produce has an unknown format or length",
    kafka=ErrorCode.CORRUPT_MESSAGE,
    oncelog=ErrorCode.NONE,
    source="an error of one partition does not stop the others; Kafka parses all batches before it "
    "looks at any partition",
)

# --- not implemented yet, and therefore refused

LOGGERS_ARE_NO_RESOURCES = Difference(
    case="ListConfigResources of type BROKER_LOGGER",
    kafka="listed",
    oncelog="left out",
    source="DescribeConfigs has no loggers to describe",
)

UNKNOWN_SETTING_OF_A_BROKER = Difference(
    case="IncrementalAlterConfigs of a broker with a setting that does not exist",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.INVALID_REQUEST,
    source="Kafka keeps it for plug-ins; oncelog has no plug-ins, so it is an unknown name",
)
SETTING_WITHOUT_EFFECT = Difference(
    case="IncrementalAlterConfigs of a broker with remote.fetch.max.wait.ms",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.INVALID_REQUEST,
    source="a dynamic setting must change the running broker",
)

CROSSED_LAGS_OF_COMPACTION = Difference(
    case="IncrementalAlterConfigs of a broker with log.cleaner.min.compaction.lag.ms above "
    "log.cleaner.max.compaction.lag.ms",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.INVALID_REQUEST,
    source="Kafka compares the two settings only when a topic has settings of its own, and then "
    "refuses each such topic",
)
SETTING_THAT_IS_NO_NUMBER = Difference(
    case="IncrementalAlterConfigs with min.cleanable.dirty.ratio=NaN",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.INVALID_CONFIG,
    source="no comparison with NaN holds, so Kafka would never compact the topic",
)
UNKNOWN_OPERATION_ON_A_TOPIC = Difference(
    case="IncrementalAlterConfigs of a topic with an operation that does not exist",
    kafka=ErrorCode.UNKNOWN_SERVER_ERROR,
    oncelog=ErrorCode.INVALID_REQUEST,
    source="Kafka's controller fails with a NullPointerException; for a broker, Kafka responds as "
    "oncelog does",
)
SETTINGS_OF_A_GROUP = Difference(
    case="DescribeConfigs of a group, and of a subscription of client metrics",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.INVALID_REQUEST,
    source="the groups of KIP-848 and client metrics (KIP-714) are not built, so their settings "
    "would have no effect",
)

ONE_RESOURCE_OF_NO_TYPE = Difference(
    case="DescribeConfigs of a topic and of a resource with an unknown type",
    kafka=ErrorCode.INVALID_REQUEST,
    oncelog=ErrorCode.NONE,
    source="Kafka's AlterConfigs and IncrementalAlterConfigs refuse only that resource, too",
)

# --- after a restart

DAMAGED_COORDINATOR = Difference(
    case="InitProducerId for an id with a wrong CRC of its record in __transaction_state",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.COORDINATOR_NOT_AVAILABLE,
    source="a coordinator that cannot load its log refuses: Kafka's coordinator does not know the "
    "id, and so fences no producer",
)

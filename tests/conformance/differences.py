"""The intended differences between oncelog and Apache Kafka 4.3.1, each with its reason.

The list for readers, with the test of each case, is the last section of docs/semantics.md. Any
other difference between Kafka and oncelog is a defect of one of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from oncelog_protocol.errors import ErrorCode

# Not an error code: the connection is closed without a response.
CLOSED: Final = "closed"


@dataclass(frozen=True, slots=True)
class Difference:
    """One case: the response of each broker (a code, or CLOSED), and why oncelog's is better."""

    case: str
    kafka: ErrorCode | str
    oncelog: ErrorCode | str
    source: str

    def expected(self, target: str) -> str:
        """Return the expected result on this target: the name of the code, or CLOSED."""
        answer = self.kafka if target == "kafka" else self.oncelog
        return answer.name if isinstance(answer, ErrorCode) else answer


# --- the producer that is refused in a transaction

COMMIT_AFTER_ABORT = Difference(
    case="EndTxn v5 wants to commit with the epoch of a transaction that was aborted meanwhile",
    kafka=ErrorCode.INVALID_TXN_STATE,
    oncelog=ErrorCode.PRODUCER_FENCED,
    source="KAFKA-20785: a producer that timed out is fenced, it has not misused the protocol",
)
ZOMBIE_ASKS_ITS_EPOCH = Difference(
    case="InitProducerId v4+ names an epoch that is not the current one, of an open transaction",
    kafka=ErrorCode.CONCURRENT_TRANSACTIONS,
    oncelog=ErrorCode.PRODUCER_FENCED,
    source="zombies are refused and change nothing: Kafka aborts the live producer's transaction "
    "before it looks at the epoch, and refuses the zombie when it comes again",
)
COMMIT_AFTER_A_ZOMBIE_ASKED = Difference(
    case="EndTxn v5 of the live producer, after the zombie's InitProducerId",
    kafka=ErrorCode.INVALID_TXN_STATE,
    oncelog=ErrorCode.NONE,
    source="as ZOMBIE_ASKS_ITS_EPOCH",
)
NEWER_EPOCH_IN_AN_OPEN_TRANSACTION = Difference(
    case="a batch of a newer epoch, where a transaction of an older one is open in the partition",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.INVALID_TXN_STATE,
    source="one COMMIT would make both visible (I4); it takes a coordinator that lost its log, or "
    "transaction.partition.verification.enable=false",
)

FORGED_PRODUCER_ID = Difference(
    case="the first batch of a producer id that no InitProducerId gave out",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.UNKNOWN_PRODUCER_ID,
    source="it will be given to another producer, whose first batch would be a repeated one",
)
BUMP_TO_THE_LAST_EPOCH = Difference(
    case="InitProducerId of a producer whose transaction timed out at epoch 32765",
    kafka=ErrorCode.UNKNOWN_SERVER_ERROR,
    oncelog=ErrorCode.NONE,
    source="Kafka has moved the epoch to the last one for the abort, and fails to go on from there",
)
RETRY_AT_THE_LAST_EPOCH = Difference(
    case="InitProducerId again by a producer whose transaction timed out at epoch 32766",
    kafka=ErrorCode.PRODUCER_FENCED,
    oncelog=ErrorCode.NONE,
    source="the retry of a call whose answer was lost gets the same answer (R14, E5)",
)

# --- offsets of a group

OLDER_COMMITS_AGAIN = Difference(
    case="TxnOffsetCommit of a producer whose offset of the partition was pending when another "
    "producer of the group committed one",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.INVALID_PRODUCER_EPOCH,
    source="upgrade fencing of KIP-447's early draft: two owners of one partition would both "
    "commit; as Kafka with group.transactions.enable=false",
)
OLDER_ENDS = Difference(
    case="EndTxn of that producer",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.PRODUCER_FENCED,
    source="as OLDER_COMMITS_AGAIN",
)
OFFSETS_UNDER_ANOTHER_NAME = Difference(
    case="TxnOffsetCommit with another transactional id than the one of the open transaction",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    source="one id's client cannot write as another id's producer (Z16): Kafka asks for the id "
    "no more once the group's partition is in the transaction",
)
GROUP_WITH_PENDING_OFFSETS = Difference(
    case="DeleteGroups, while a transaction has offsets of the empty group pending",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.NON_EMPTY_GROUP,
    source="a commit is not lost silently (O10): in Kafka the transaction commits and its offset "
    "is gone",
)

# --- limits that protect a broker of one process from clients

TOO_MANY_ELEMENTS = Difference(
    case="a request with more array elements than request_limits.py allows",
    kafka=ErrorCode.NONE,
    oncelog=CLOSED,
    source="no request holds the loop for longer than some 50 ms (H21, H26, H30)",
)
STANDING_FRAME = Difference(
    case="a request that stands still in its middle for 30 s",
    kafka=ErrorCode.NONE,
    oncelog=CLOSED,
    source="a slow sender must not hold memory (H6)",
)
IDS_OF_AN_ADDRESS = Difference(
    case="InitProducerId beyond oncelog.max.producer.ids.per.address",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.POLICY_VIOLATION,
    source="limits on live producer ids with a clear refusal (H60, H61)",
)
PRODUCERS_OF_A_PARTITION = Difference(
    case="a batch of one producer more than oncelog.max.producer.ids.per.partition",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.POLICY_VIOLATION,
    source="as IDS_OF_AN_ADDRESS",
)
PATTERN = Difference(
    case="ListTransactions v2 with a pattern of flags, Unicode classes, POSIX classes or word "
    "boundaries",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.INVALID_REGULAR_EXPRESSION,
    source="patterns of clients are matched in linear time by a matcher of our own (H31), which "
    "refuses what it does not know",
)

# --- contents of the log

RECORDS_INSIDE = Difference(
    case="a batch with the right CRC whose records are nonsense",
    kafka=ErrorCode.INVALID_RECORD,
    oncelog=ErrorCode.NONE,
    source="records are looked into only where a setting needs it; as Kafka with "
    "oncelog.validate.records=true",
)
INTERNAL_TOPIC_BY_NAME = Difference(
    case="a batch with a wrong CRC for an internal topic, by a client id of `__admin_client`",
    kafka=ErrorCode.CORRUPT_MESSAGE,
    oncelog=ErrorCode.INVALID_TOPIC_EXCEPTION,
    source="a client id is never a credential: Kafka would write what is sound",
)
PARTITIONS_OF_INTERNAL_TOPICS = Difference(
    case="CreatePartitions of an internal topic",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.INVALID_REQUEST,
    source="their number decides which broker coordinates an id or a group",
)

# --- not built yet, and refused for that reason

SCRAM_CREDENTIALS_ARE_NOT_SET = Difference(
    case="AlterUserScramCredentials sets a credential",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.SECURITY_DISABLED,
    source="no listener authenticates with it: it would protect nothing",
)
QUOTAS_ARE_NOT_SET = Difference(
    case="AlterClientQuotas sets a quota",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.UNSUPPORTED_VERSION,
    source="it would not be enforced",
)
LOGGERS_ARE_NO_RESOURCES = Difference(
    case="ListConfigResources of type BROKER_LOGGER",
    kafka="listed",
    oncelog="left out",
    source="DescribeConfigs has no loggers to describe",
)

ONE_RESOURCE_OF_NO_TYPE = Difference(
    case="DescribeConfigs of a topic, beside a resource whose type is no number that is known",
    kafka=ErrorCode.INVALID_REQUEST,
    oncelog=ErrorCode.NONE,
    source="as AlterConfigs and IncrementalAlterConfigs in Kafka, which refuse that resource alone",
)

# --- after a restart

DAMAGED_COORDINATOR = Difference(
    case="InitProducerId for an id whose record in __transaction_state has a wrong CRC",
    kafka=ErrorCode.NONE,
    oncelog=ErrorCode.COORDINATOR_NOT_AVAILABLE,
    source="a coordinator that cannot load refuses: Kafka's would not know the id, and so fence "
    "unknown",
)

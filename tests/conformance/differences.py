"""Where oncelog answers otherwise than Apache Kafka 4.3.1 on purpose: each case with its source."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog_protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Difference:
    """One case, the code each of the two answers, and why oncelog's is the better one."""

    case: str
    kafka: ErrorCode
    oncelog: ErrorCode
    source: str

    def expected(self, target: str) -> str:
        """The name of the code that this target has to answer."""
        return (self.kafka if target == "kafka" else self.oncelog).name


COMMIT_AFTER_ABORT = Difference(
    case="EndTxn v5 wants to commit with the epoch of a transaction that was aborted meanwhile",
    kafka=ErrorCode.INVALID_TXN_STATE,
    oncelog=ErrorCode.PRODUCER_FENCED,
    source="KAFKA-20785: a producer that timed out is fenced, it has not misused the protocol",
)

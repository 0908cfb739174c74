"""The results of the coordinator. A handler makes a response from a result."""

from __future__ import annotations

from typing import Final

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.metadata import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class TransactionResult(msgspec.Struct, frozen=True):
    """The result of a command. `producer_id` and `producer_epoch` are those that the producer uses
    next (InitProducerId, EndTxn v5). The `ongoing` fields are those of a transaction that stays
    open (KIP-939)."""

    code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    ongoing_producer_id: int = NO_PRODUCER_ID
    ongoing_producer_epoch: int = NO_PRODUCER_EPOCH
    # The member of a group commit that caused the error. None if the id of the request caused the
    # error.
    refused_member: str | None = None
    # A message for operators, in addition to the code.
    message: str = ""


SUCCESS: Final = TransactionResult(ErrorCode.NONE)
BUSY: Final = TransactionResult(ErrorCode.CONCURRENT_TRANSACTIONS)
FENCED: Final = TransactionResult(ErrorCode.PRODUCER_FENCED)
UNKNOWN_PRODUCER: Final = TransactionResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
INVALID_STATE: Final = TransactionResult(ErrorCode.INVALID_TXN_STATE)
ILLEGAL_GENERATION: Final = TransactionResult(ErrorCode.ILLEGAL_GENERATION)
CONCURRENT_COMMIT: Final = TransactionResult(ErrorCode.CONCURRENT_PRODUCER_COMMIT)
INVALID_REQUEST: Final = TransactionResult(ErrorCode.INVALID_REQUEST)

"""Error codes that were added later (KIP-588, KIP-890), and the codes that older versions of an API
get instead."""

from __future__ import annotations

from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode

# A row is (API, code): (first version with the code, the code for older versions).
KNOWN_SINCE: Final[dict[tuple[ApiKey, ErrorCode], tuple[int, ErrorCode]]] = {
    (ApiKey.INIT_PRODUCER_ID, ErrorCode.PRODUCER_FENCED): (4, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.PRODUCER_FENCED): (
        2,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ),
    (ApiKey.ADD_OFFSETS_TO_TXN, ErrorCode.PRODUCER_FENCED): (2, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ApiKey.END_TXN, ErrorCode.PRODUCER_FENCED): (2, ErrorCode.INVALID_PRODUCER_EPOCH),
    # Produce and TxnOffsetCommit use 47 (INVALID_PRODUCER_EPOCH) for a fenced producer in every
    # version.
    (ApiKey.PRODUCE, ErrorCode.PRODUCER_FENCED): (1 << 15, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.PRODUCER_FENCED): (
        1 << 15,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ),
    (ApiKey.PRODUCE, ErrorCode.TRANSACTION_ABORTABLE): (11, ErrorCode.INVALID_TXN_STATE),
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.TRANSACTION_ABORTABLE): (4, ErrorCode.INVALID_TXN_STATE),
}


def code_for_version(api: ApiKey, version: int, code: ErrorCode) -> ErrorCode:
    """Return the error code that this version of the API gets instead of `code`. Return `code`
    itself if the version knows the code."""
    since, older = KNOWN_SINCE.get((api, code), (0, code))
    return code if version >= since else older

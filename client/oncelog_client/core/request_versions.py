"""The versions of a request that can carry what its sender has to say."""

from __future__ import annotations

from typing import Final

_END: Final = 1 << 15

ANY_VERSION: Final = range(_END)
# KIP-447: before v3 a TxnOffsetCommit does not carry the member that commits.
TXN_OFFSET_COMMIT_WITH_MEMBER: Final = range(3, _END)
# KIP-939: before v6 an InitProducerId cannot ask for two-phase commit.
INIT_PRODUCER_ID_WITH_TWO_PHASE: Final = range(6, _END)

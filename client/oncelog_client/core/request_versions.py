"""The versions of a request that can carry a field, or that have a given behavior.

The schema of a message says in which version a field was added. Only changes of behavior have
constants here.
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.schema import schema_of

_END: Final = 1 << 15

ANY_VERSION: Final = range(_END)
# KIP-890 part 2: from these versions on brokers add partitions and groups to the transaction by
# themselves, and the response to EndTxn has a new epoch.
_IMPLICIT_SINCE: Final = {ApiKey.PRODUCE: 12, ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.END_TXN: 5}
# KIP-734: the timestamp -3 stands for the record with the greatest timestamp.
LIST_OFFSETS_WITH_MAX_TIMESTAMP: Final = range(7, _END)


def versions_with(request: type, field: str) -> range:
    """Return the versions of `request` that carry `field`. Raises KeyError for an unknown field."""
    since = {row.name: row.since for row in schema_of(request).fields}[field]
    return range(since, _END)


def explicit_versions(api: ApiKey) -> range:
    """Return the versions of `api` that do not add partitions or groups to a transaction by
    themselves. With these versions the client adds them (before KIP-890)."""
    return range(_IMPLICIT_SINCE.get(api, _END))

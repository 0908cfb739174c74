"""The parts of a response that the two brokers must agree on."""

from __future__ import annotations

from typing import Any, Final

from oncelog_protocol.types import ZERO_UUID

# Error codes, names, authorized operations, and the offsets that show the effects of requests.
FIELDS: Final = frozenset(
    {
        "error_code", "partition_error_code", "topic_config_error_code",
        "name", "topic", "group_id", "key", "transactional_id", "user",
        "resource_name", "resource_type", "is_internal",
        "partition", "partition_index", "partition_id", "index",
        "topic_authorized_operations", "cluster_authorized_operations", "authorized_operations",
        "high_watermark", "last_stable_offset", "low_watermark", "offset", "end_offset",
        "base_offset", "committed_offset", "group_state", "transaction_state",
    }
)  # fmt: skip
# Lists that do not depend on rights: the settings of a topic, the APIs, the addresses.
LEFT_OUT: Final = frozenset(
    {"configs", "api_keys", "brokers", "node_endpoints", "active_producers", "supported_features",
     "finalized_features", "aborted_transactions", "record_errors", "fences"}
)  # fmt: skip

View = dict[str, Any]


def view(response: Any) -> View:
    """Return the fields of FIELDS at every level. The order of a list does not count. A topic id
    only counts as present or absent."""
    found: View = {}
    for name in response.__slots__:
        value = getattr(response, name)
        if name == "topic_id":
            found[name] = value != ZERO_UUID
        elif isinstance(value, list):
            if name not in LEFT_OUT and all(hasattr(element, "__slots__") for element in value):
                found[name] = sorted(map(view, value), key=repr)
        elif name in FIELDS:
            found[name] = value
    return found


def codes(found: Any) -> set[int]:
    """Return all error codes of a view."""
    if isinstance(found, list):
        return set().union(*map(codes, found))
    if not isinstance(found, dict):
        return set()
    own = {value for name, value in found.items() if name.endswith("error_code")}
    return own.union(*map(codes, found.values()))

"""FindCoordinator (key 10, versions 0 to 6).

Names the broker that coordinates a group or a transactional id.

* v1: key type, for groups or transactions (KIP-98); throttle time
* v3: flexible
* v4: several keys (KIP-699)
* v5: the client knows TRANSACTION_ABORTABLE (KIP-890)
* v6: share groups (KIP-932)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, int8, int16, int32, string


@api_message(ApiKey.FIND_COORDINATOR)
class FindCoordinatorRequest:
    """Keys of one type: 0 group, 1 transactional id, 2 share group. Up to v5, type 2 is
    oncelog's own: the key is a consumer group, and the response names the coordinator of the
    group's transactions."""

    key: str = string(until=3)
    key_type: int = int8(since=1)
    coordinator_keys: list[str] = array(string, since=4)


@struct
class Coordinator:
    """The coordinator of one key."""

    key: str = string(since=4)
    node_id: int = int32(since=4)
    host: str = string(since=4)
    port: int = int32(since=4)
    error_code: int = int16(since=4)
    error_message: str | None = string(since=4, nullable=True)


@api_message(ApiKey.FIND_COORDINATOR)
class FindCoordinatorResponse:
    """One coordinator up to version 3, one for each key after that."""

    throttle_time_ms: int = int32(since=1)
    error_code: int = int16(until=3)
    error_message: str | None = string(since=1, until=3, nullable=True)
    node_id: int = int32(until=3)
    host: str = string(until=3)
    port: int = int32(until=3)
    coordinators: list[Coordinator] = array(Coordinator, since=4)

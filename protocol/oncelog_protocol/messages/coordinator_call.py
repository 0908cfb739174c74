"""CoordinatorCall (key 10,000, version 0): oncelog's own requests between the coordinators on
different brokers.

A transactional id in a consumer group is coordinated with its group (KIP-447, early draft). The
coordinators of the id and of the group may be on different brokers, so they call each other. A
request has one call. A response leaves when its call has ended, not in the order of the requests,
so that a slow shard delays no call to another shard.
"""

from __future__ import annotations

from enum import IntEnum

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int8, int16, int32, int64, nested, string

from .describe_transactions import TransactionState


class Operation(IntEnum):
    """The operations, each with the shard that serves it."""

    CLAIM = 0
    """At the shard of a transactional id: fence the id there, and point to the group that takes
    it."""
    DEPART = 1
    """At the shard of a group: fence and remove a transactional id."""
    LIVE_GENERATION = 2
    """At the shard of a group's offsets: the generation of the group."""
    ABORT_OLDER = 3
    """At each shard of transactions: abort the open transactions of some producers."""
    REFUSED = 4
    """At the shard of a transactional id or its group: count a refused request."""
    LOCATE = 5
    """At the shard of a group: the state of a transactional id."""
    END_OPEN = 6
    """At the shard of a group: abort the open transaction of an id, for an operator."""
    MISSING_MARKERS = 7
    """At each shard of transactions: the partitions that will get a marker of some producers."""


@struct
class CallClient:
    """A client of a broker, for messages to operators."""

    client_id: str = string()
    client_address: str = string()
    principal: str = string()


@struct
class CoordinatorCall:
    """One call. `key`: a transactional id, or the group of LIVE_GENERATION. `group_id`: the group
    that takes the id, or that has it. `pointer_offset`: the offset of the id's pointer record from
    which the caller knows the group, -1 if the caller has read no such record. `producer_id` and
    `producer_epoch`: those of an InitProducerId, or of a refused producer. `partition`: the shard
    of ABORT_OLDER and MISSING_MARKERS, which have no key. `only_if_absent`: refuse if the group has
    the id. `caller`: the client that causes the call, or none. `cause`, `at_ms` and `caused_by`:
    the reason of a refused request."""

    operation: int = int8()
    key: str = string()
    group_id: str | None = string(nullable=True, default=None)
    generation_id: int = int32(default=-1)
    pointer_offset: int = int64(default=-1)
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16(default=-1)
    timeout_ms: int = int32(default=-1)
    keep_prepared: bool = boolean()
    only_if_absent: bool = boolean()
    producer_ids: list[int] = array(int64)
    partition: int = int32(default=-1)
    caller: list[CallClient] = array(CallClient)
    cause: str = string()
    at_ms: int = int64(default=-1)
    caused_by: list[CallClient] = array(CallClient)


@struct
class CoordinatorCallResult:
    """The result of one call. `coordinator_epoch`: the leader epoch of the shard's partition, -1 if
    this broker does not serve the shard. `group_id` and `pointer_offset`: the pointer of the id.
    `generation_id`: -1 if the group has no members. `cause`, `at_ms` and `caused_by`: the reason
    for which the group refuses the generation of the call."""

    error_code: int = int16()
    error_message: str = string()
    coordinator_epoch: int = int32(default=-1)
    group_id: str | None = string(nullable=True, default=None)
    pointer_offset: int = int64(default=-1)
    generation_id: int = int32(default=-1)
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16(default=-1)
    cause: str = string()
    at_ms: int = int64(default=-1)
    caused_by: list[CallClient] = array(CallClient)
    transactions: list[TransactionState] = array(TransactionState)


@api_message(ApiKey.COORDINATOR_CALL)
class CoordinatorCallRequest:
    """A call to a coordinator; from brokers only."""

    call: CoordinatorCall = nested(CoordinatorCall)


@api_message(ApiKey.COORDINATOR_CALL)
class CoordinatorCallResponse:
    """The result of the call. An `error_code` refuses the request itself."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    result: CoordinatorCallResult = nested(CoordinatorCallResult)

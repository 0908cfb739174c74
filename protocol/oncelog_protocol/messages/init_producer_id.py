"""InitProducerId (key 22, versions 0 to 6).

Gives a producer its id and epoch, and fences the earlier producer.

* v1: a throttled client gets the response before the delay
* v2: flexible
* v3: current id and epoch, to bump the epoch of a running producer (KIP-360)
* v4: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588)
* v5: the client knows TRANSACTION_ABORTABLE (KIP-890)
* v6: two-phase commit (KIP-939)
"""

from __future__ import annotations

from oncelog_protocol.apis import ApiKey, api_message
from oncelog_protocol.features import OWN_TAGS
from oncelog_protocol.schema import struct
from oncelog_protocol.types import array, boolean, int16, int32, int64, string


@struct
class AssignedTopic:
    """Oncelog's own: partitions of one topic that the group assigned to the producer's process."""

    topic: str = string()
    partitions: list[int] = array(int32)


@api_message(ApiKey.INIT_PRODUCER_ID)
class InitProducerIdRequest:
    """A null transactional id: the producer is only idempotent (KIP-98).

    The tagged fields are oncelog's own. A producer in a consumer group sets `consumer_group_id`,
    `consumer_group_generation` and `assigned_partitions` together (KIP-447, early draft).
    `by_operator`: the request only ends the open transaction.
    """

    transactional_id: str | None = string(nullable=True)
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(since=3, default=-1)
    producer_epoch: int = int16(since=3, default=-1)
    enable_2pc: bool = boolean(since=6)
    keep_prepared_txn: bool = boolean(since=6)
    consumer_group_id: str | None = string(
        since=2, nullable=True, tag=OWN_TAGS["consumer_group_id"], default=None
    )
    consumer_group_generation: int = int32(
        since=2, tag=OWN_TAGS["consumer_group_generation"], default=-1
    )
    assigned_partitions: list[AssignedTopic] | None = array(
        AssignedTopic, since=2, nullable=True, tag=OWN_TAGS["assigned_partitions"], default=None
    )
    by_operator: bool = boolean(since=2, tag=OWN_TAGS["by_operator"])


@api_message(ApiKey.INIT_PRODUCER_ID)
class InitProducerIdResponse:
    """The id and epoch to write with."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64(since=6, default=-1)
    ongoing_txn_producer_epoch: int = int16(since=6, default=-1)

"""The table of error codes by version (KIP-588, KIP-890), row by row."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from tests.conformance.conftest import Target
from tests.harness.transacting import add_partitions, commit_offset, last_stable_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    BUSY,
    Identity,
    batch,
    end_transaction,
    find_coordinator,
    init_producer_id,
    new_identity,
    produce,
)

FENCED, EPOCH = "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"
ABORTABLE, STATE = "TRANSACTION_ABORTABLE", "INVALID_TXN_STATE"
UNKNOWN = "INVALID_PRODUCER_ID_MAPPING"
# Versions that Kafka 4.3.1 does not advertise.
NEWER = {
    ("init", 6): ApiKey.INIT_PRODUCER_ID,
    ("commit-offset", 6): ApiKey.TXN_OFFSET_COMMIT,
}


class Row(NamedTuple):
    """The error code that some versions of a request get."""

    api: str
    versions: range
    code: str


ZOMBIE = [
    Row("end", range(0, 2), EPOCH),
    Row("end", range(2, 6), FENCED),
    Row("add-partitions", range(0, 2), EPOCH),
    Row("add-partitions", range(2, 4), FENCED),
    Row("add-offsets", range(0, 2), EPOCH),
    Row("add-offsets", range(2, 5), FENCED),
    Row("init", range(3, 4), EPOCH),
    Row("init", range(4, 7), FENCED),
    Row("produce", range(3, 13), EPOCH),
    Row("commit-offset", range(0, 6), EPOCH),
]
OUTSIDE = [
    Row("produce", range(3, 11), STATE),
    Row("produce", range(11, 12), ABORTABLE),
    Row("commit-offset", range(0, 4), STATE),
    Row("commit-offset", range(4, 5), ABORTABLE),
]
# Requests for an unknown id, or by a producer of another id.
OTHER_PRODUCER = [
    Row("end", range(0, 6), UNKNOWN),
    Row("add-partitions", range(0, 4), UNKNOWN),
    Row("add-offsets", range(0, 5), UNKNOWN),
    Row("produce", range(3, 13), UNKNOWN),
    Row("commit-offset", range(0, 6), UNKNOWN),
]
# Requests with a producer id and no epoch, or with an epoch and no producer id.
HALF_NAMED = [Row("init", range(3, 7), "INVALID_REQUEST")]


def cells(rows: list[Row]) -> list[Any]:
    return [
        pytest.param(row.api, version, row.code, id=f"{row.api}-v{version}-{row.code}")
        for row in rows
        for version in row.versions
    ]


def spoken(target: Target, wire: Wire, api: str, version: int) -> bool:
    """Return False if the target is Kafka and does not announce this version. There is nothing to
    compare then."""
    if target.name != "kafka" or (api, version) not in NEWER:
        return True
    key = NEWER[api, version]
    response = wire.call(ApiVersionsRequest("conformance", "1"), 3)
    (latest,) = (api_key.max_version for api_key in response.api_keys if api_key.api_key == key)
    assert latest < version
    return False


def act(wire: Wire, api: str, version: int, producer: Identity, topic: str) -> int:
    """Send one request as this producer, and return the error code."""
    if api == "end":
        return end_transaction(wire, producer, commit=True, version=version).error_code
    if api == "add-partitions":
        return add_partitions(wire, producer, (topic, 0), version=version)[0]
    if api == "add-offsets":
        request = AddOffsetsToTxnRequest(
            transactional_id=producer.transactional_id or "",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id=topic,
        )
        code: int = wire.call(request, version).error_code
        return code
    if api == "init":
        return init_producer_id(wire, topic, version=version, current=producer).error_code
    if api == "produce":
        return produce(
            wire, topic, batch(producer, 0), producer=producer, version=version
        ).error_code
    return commit_offset(wire, producer, topic, 1, version=version)


@pytest.mark.parametrize(("api", "version", "code"), cells(ZOMBIE))
def test_each_version_has_its_error_code_for_a_zombie(
    target: Target, wire: Wire, topic: str, api: str, version: int, code: str
) -> None:
    """KIP-588: versions with PRODUCER_FENCED return it, older ones INVALID_PRODUCER_EPOCH."""
    if not spoken(target, wire, api, version):
        return
    find_coordinator(wire, topic, key_type=0)
    zombie = new_identity(wire, topic)
    heir = new_identity(wire, topic)
    heir = new_identity(wire, topic)
    assert heir == zombie.aged(2)
    # InitProducerId is sent without an open transaction. With one, Kafka differs: see
    # ZOMBIE_ASKS_ITS_EPOCH in test_wire_differences.py.
    busy = api != "init"
    if busy:
        assert produce(wire, topic, batch(heir, 0), producer=heir).error_code == ErrorCode.NONE
    if api == "commit-offset":
        assert commit_offset(wire, heir, topic, 5) == ErrorCode.NONE
    assert ErrorCode(act(wire, api, version, zombie, topic)).name == code
    ended = end_transaction(wire, heir, commit=True)
    assert ended.error_code == (ErrorCode.NONE if busy else ErrorCode.INVALID_TXN_STATE)


@pytest.mark.parametrize(("api", "version", "code"), cells(OUTSIDE))
def test_o5_z3_each_version_refuses_requests_outside_a_transaction(
    wire: Wire, topic: str, api: str, version: int, code: str
) -> None:
    """KIP-890 part 1: a client of these versions must add its partitions first, and the client of
    this test has not."""
    find_coordinator(wire, topic, key_type=0)
    producer = new_identity(wire, topic, version=2)
    assert ErrorCode(act(wire, api, version, producer, topic)).name == code
    assert last_stable_offset(wire, topic) == (0, 0)


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize(("api", "version", "code"), cells(OTHER_PRODUCER))
def test_z16_each_version_refuses_a_wrong_producer_id(
    wire: Wire, topic: str, api: str, version: int, code: str, exists: bool
) -> None:
    """The code is INVALID_PRODUCER_ID_MAPPING. The producer of the id is unchanged."""
    find_coordinator(wire, topic, key_type=0)
    producer = new_identity(wire, topic)
    name = topic if exists else f"{topic}-none"
    find_coordinator(wire, name)
    other = Identity(producer.producer_id + 7, 0, name)
    assert ErrorCode(act(wire, api, version, other, topic)).name == code
    assert last_stable_offset(wire, topic) == (0, 0)


@pytest.mark.parametrize(("api", "version", "code"), cells(HALF_NAMED))
def test_z10_each_version_refuses_a_producer_id_without_an_epoch_and_the_reverse(
    target: Target, wire: Wire, topic: str, api: str, version: int, code: str
) -> None:
    """A request with a producer id and no epoch, or with an epoch and no producer id, is
    refused."""
    if not spoken(target, wire, api, version):
        return
    producer = new_identity(wire, topic)
    for half in (Identity(producer.producer_id, -1, topic), Identity(-1, 0, topic)):
        assert ErrorCode(act(wire, api, version, half, topic)).name == code
    assert new_identity(wire, topic) == producer.aged(1)


@pytest.mark.parametrize("version", range(3, 6))
def test_z9_each_version_gives_the_next_epoch_only_to_the_current_producer(
    wire: Wire, topic: str, version: int
) -> None:
    """KIP-360: only the current producer gets the next epoch, and a retry gets the same
    response."""
    fenced = FENCED if version >= 4 else EPOCH
    producer = new_identity(wire, topic)
    bumped = new_identity(wire, topic, current=producer, version=version)
    assert bumped == producer.aged(1)
    assert new_identity(wire, topic, current=producer, version=version) == bumped
    newest = new_identity(wire, topic, current=bumped, version=version)
    for other in (producer, Identity(producer.producer_id + 7, 0, topic)):
        response = init_producer_id(wire, topic, current=other, version=version)
        assert ErrorCode(response.error_code).name == fenced
    assert new_identity(wire, topic, current=bumped, version=version) == newest


@pytest.mark.parametrize("version", range(0, 7))
@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001, 2**31 - 1])
def test_t2_each_version_refuses_a_transaction_timeout_out_of_bounds(
    target: Target, wire: Wire, topic: str, version: int, timeout_ms: int
) -> None:
    if not spoken(target, wire, "init", version):
        return
    find_coordinator(wire, topic)
    codes: list[int] = []

    def answered() -> bool:
        response = init_producer_id(wire, topic, timeout_ms=timeout_ms, version=version)
        codes.append(response.error_code)
        return codes[-1] not in BUSY

    wait_until(answered, "a response to InitProducerId")
    assert ErrorCode(codes[-1]).name == "INVALID_TRANSACTION_TIMEOUT"


@pytest.mark.parametrize("version", [4, 5])
def test_a_leader_learns_that_a_partition_is_not_in_the_transaction(
    wire: Wire, topic: str, version: int
) -> None:
    """A broker sends AddPartitionsToTxn with verify_only. The leader translates the error code for
    its client's version."""
    producer = new_identity(wire, topic)
    assert add_partitions(wire, producer, (topic, 0)) == [ErrorCode.NONE]
    codes = []
    for partition in (0, 1):
        transaction = AddPartitionsToTxnTransaction(
            topic,
            producer.producer_id,
            producer.producer_epoch,
            True,
            [AddPartitionsToTxnTopic(topic, [partition])],
        )
        response = wire.call(AddPartitionsToTxnRequest(transactions=[transaction]), version)
        results = response.results_by_transaction[0].topic_results[0].results_by_partition
        codes.append(ErrorCode(results[0].partition_error_code).name)
    assert codes == ["NONE", ABORTABLE]

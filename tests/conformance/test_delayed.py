"""A proxy that knows the protocol loses, delays, duplicates or cuts requests and responses. A V1
client adds its partitions itself and keeps its epoch. A V2 client gets a new epoch with each
transaction (KIP-890)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from oncelog.testing.proxy import Cut, Direction, Drop, Duplicate, Hold, Proxy
from oncelog.testing.wire import Closed, Wire
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from oncelog_protocol.messages.describe_transactions import DescribeTransactionsRequest
from oncelog_protocol.messages.end_txn import EndTxnRequest
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.conformance.conftest import Target
from tests.harness.driving import end_offset, values
from tests.harness.transacting import add_partitions, last_stable_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    Identity,
    batch,
    end_transaction,
    init_producer_id,
    new_identity,
    produce,
)

V1 = {"end": 3, "produce": 11}
V2 = {"end": 5, "produce": 12}
CODES_OF_NO_TRANSACTION = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
}


@pytest.fixture
def proxy(target: Target) -> Iterator[Proxy]:
    with Proxy(target.address) as proxy:
        yield proxy


@pytest.fixture
def through(proxy: Proxy) -> Iterator[Wire]:
    """A connection through the proxy."""
    with Wire(proxy.address) as through:
        yield through


def ending(producer: Identity, *, commit: bool = True) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=producer.transactional_id or "",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=commit,
    )


def producing(
    producer: Identity, topic: str, data: bytes | bytearray, acks: int = -1
) -> ProduceRequest:
    place = TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, data)])
    return ProduceRequest(producer.transactional_id, acks, 10_000, [place])


def write(
    wire: Wire, topic: str, producer: Identity, sequence: int, value: bytes, version: int
) -> int:
    """Write one record to partition 0 in a transaction, and return the error code."""
    if version < V2["produce"]:
        assert add_partitions(wire, producer, (topic, 0)) == [ErrorCode.NONE]
    response = produce(
        wire, topic, batch(producer, sequence, value=value), producer=producer, version=version
    )
    return int(response.error_code)


def after(producer: Identity, response: Any) -> Identity:
    """Return the producer with the epoch that EndTxn v5 returned."""
    assert response.error_code == ErrorCode.NONE, ErrorCode(response.error_code)
    return Identity(response.producer_id, response.producer_epoch, producer.transactional_id)


def is_decided(wire: Wire, topic: str) -> bool:
    stable, end = last_stable_offset(wire, topic)
    return stable == end


def is_complete(wire: Wire, transactional_id: str) -> bool:
    """Return True if the id's state is CompleteCommit or CompleteAbort. Kafka enters this state
    after it has written the markers. Until then the next transaction gets
    CONCURRENT_TRANSACTIONS."""
    (found,) = wire.call(DescribeTransactionsRequest([transactional_id]), 0).transaction_states
    state: str = found.transaction_state
    return state.startswith("Complete")


def test_r1_a_batch_sent_on_two_connections_is_written_once(
    wire: Wire, proxy: Proxy, through: Wire, topic: str
) -> None:
    producer = new_identity(wire)
    assert produce(through, topic, batch(producer, 0)).base_offset == 0
    twice = Duplicate()
    proxy.on(ApiKey.PRODUCE, twice)
    assert produce(through, topic, batch(producer, 1)).base_offset == 1
    assert twice.response
    assert produce(through, topic, batch(producer, 2)).base_offset == 2


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_r6_n2_an_end_txn_retried_after_a_lost_response_gets_the_same_response(
    wire: Wire, proxy: Proxy, topic: str, commit: bool
) -> None:
    """V2: the retry comes after the end of the transaction. It gets the same response and has no
    further effect."""
    producer = new_identity(wire, topic)
    assert write(wire, topic, producer, 0, b"once", V2["produce"]) == ErrorCode.NONE
    proxy.on(ApiKey.END_TXN, Drop(), direction=Direction.RESPONSE)
    with Wire(proxy.address) as through, pytest.raises((Closed, ConnectionResetError)):
        through.call(ending(producer, commit=commit), V2["end"])
    wait_until(lambda: is_decided(wire, topic), "the transaction is over")
    heir = after(producer, end_transaction(wire, producer, commit=commit))
    assert heir.producer_epoch == producer.producer_epoch + 1
    assert end_offset(wire, topic) == 2
    assert values(wire, topic) == ([b"once"] if commit else [])


def test_n2_a_v1_end_txn_retried_after_a_lost_response_gets_the_same_response(
    wire: Wire, proxy: Proxy, topic: str
) -> None:
    """A V1 retry gets the same result. A request for the opposite result is refused."""
    producer = new_identity(wire, topic)
    assert write(wire, topic, producer, 0, b"once", V1["produce"]) == ErrorCode.NONE
    proxy.on(ApiKey.END_TXN, Drop(), direction=Direction.RESPONSE)
    with Wire(proxy.address) as through, pytest.raises((Closed, ConnectionResetError)):
        through.call(ending(producer), V1["end"])
    wait_until(lambda: is_decided(wire, topic), "the transaction is over")
    assert (
        end_transaction(wire, producer, commit=True, version=V1["end"]).error_code == ErrorCode.NONE
    )
    opposite = end_transaction(wire, producer, commit=False, version=V1["end"])
    assert opposite.error_code == ErrorCode.INVALID_TXN_STATE
    assert values(wire, topic) == [b"once"]


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_r7_a_late_end_txn_does_not_end_the_next_transaction(
    wire: Wire, proxy: Proxy, through: Wire, topic: str, commit: bool
) -> None:
    """V2: the late request has the epoch of the earlier transaction (KAFKA-17754, which KIP-890
    solves)."""
    producer = new_identity(wire, topic)
    assert write(wire, topic, producer, 0, b"first", V2["produce"]) == ErrorCode.NONE
    held = Hold()
    proxy.on(ApiKey.END_TXN, held)
    through.send(ending(producer, commit=commit), V2["end"])
    held.wait()
    heir = after(producer, end_transaction(wire, producer, commit=commit))
    wait_until(lambda: is_complete(wire, topic), "the coordinator has completed the transaction")
    assert write(wire, topic, heir, 0, b"second", V2["produce"]) == ErrorCode.NONE
    held.release()
    # The next transaction is open. Before that, the same request would count as a retry.
    assert ErrorCode(through.answer().error_code).name == "PRODUCER_FENCED"
    assert last_stable_offset(wire, topic) == (2, 3)
    assert write(wire, topic, heir, 1, b"third", V2["produce"]) == ErrorCode.NONE
    end_transaction(wire, heir, commit=True)
    wait_until(lambda: is_decided(wire, topic), "the transaction is over")
    assert values(wire, topic) == ([b"first"] if commit else []) + [b"second", b"third"]


def test_r7v1_a_late_end_txn_of_a_v1_client_ends_the_next_transaction(
    wire: Wire, proxy: Proxy, through: Wire, topic: str
) -> None:
    """Up to EndTxn v4 no broker can detect the late request (KAFKA-17754). This is a known
    exposure, not a promise. oncelog drops the request if the client has closed the connection
    (tests/faults)."""
    producer = new_identity(wire, topic)
    assert write(wire, topic, producer, 0, b"first", V1["produce"]) == ErrorCode.NONE
    held = Hold()
    proxy.on(ApiKey.END_TXN, held)
    through.send(ending(producer), V1["end"])
    held.wait()
    end_transaction(wire, producer, commit=True, version=V1["end"])
    assert write(wire, topic, producer, 1, b"second", V1["produce"]) == ErrorCode.NONE
    held.release()
    assert through.answer().error_code == ErrorCode.NONE
    wait_until(lambda: is_decided(wire, topic), "the next transaction was ended")
    assert values(wire, topic) == [b"first", b"second"]


def test_r8_a_late_batch_is_refused_in_the_next_transaction(
    wire: Wire, proxy: Proxy, through: Wire, topic: str
) -> None:
    """V2: the batch of an aborted transaction arrives in its partition while the next transaction
    is open."""
    producer = new_identity(wire, topic)
    assert write(wire, topic, producer, 0, b"first", V2["produce"]) == ErrorCode.NONE
    held = Hold()
    proxy.on(ApiKey.PRODUCE, held)
    through.send(producing(producer, topic, batch(producer, 1, value=b"late")), V2["produce"])
    held.wait()
    heir = after(producer, end_transaction(wire, producer, commit=False))
    wait_until(lambda: is_complete(wire, topic), "the coordinator has completed the transaction")
    assert write(wire, topic, heir, 0, b"second", V2["produce"]) == ErrorCode.NONE
    held.release()
    late = through.answer().responses[0].partition_responses[0]
    assert ErrorCode(late.error_code).name == "INVALID_PRODUCER_EPOCH"
    end_transaction(wire, heir, commit=True)
    wait_until(lambda: is_decided(wire, topic), "the transaction is over")
    assert values(wire, topic) == [b"second"]


def test_r8_a_late_batch_of_a_v1_client_is_refused_in_the_next_transaction(
    wire: Wire, proxy: Proxy, through: Wire, topic: str
) -> None:
    """V1: a client that drops a batch requests its next epoch (KIP-360), so the late batch has an
    old epoch."""
    producer = new_identity(wire, topic)
    assert write(wire, topic, producer, 0, b"first", V1["produce"]) == ErrorCode.NONE
    held = Hold()
    proxy.on(ApiKey.PRODUCE, held)
    through.send(producing(producer, topic, batch(producer, 1, value=b"late")), V1["produce"])
    held.wait()
    end_transaction(wire, producer, commit=False, version=V1["end"])
    heir = new_identity(wire, topic, current=producer)
    assert write(wire, topic, heir, 0, b"second", V1["produce"]) == ErrorCode.NONE
    held.release()
    late = through.answer().responses[0].partition_responses[0]
    assert ErrorCode(late.error_code).name == "INVALID_PRODUCER_EPOCH"
    end_transaction(wire, heir, commit=True, version=V1["end"])
    wait_until(lambda: is_decided(wire, topic), "the transaction is over")
    assert values(wire, topic) == [b"second"]


@pytest.mark.parametrize("spoken", ["V1", "V2"])
def test_r9_a_late_add_partitions_to_txn_is_fenced_for_v2_and_times_out_for_v1(
    wire: Wire, proxy: Proxy, through: Wire, topic: str, spoken: str
) -> None:
    """V2: the request is fenced. V1: the request opens a transaction without records, which is
    aborted at its timeout. Readers lose nothing."""
    versions = V1 if spoken == "V1" else V2
    # The timeout is longer than a pause of the computer, so that the first transaction ends before
    # its timeout.
    producer = new_identity(wire, topic, timeout_ms=5_000)
    held = Hold()
    proxy.on(ApiKey.ADD_PARTITIONS_TO_TXN, held)
    assert write(wire, topic, producer, 0, b"first", versions["produce"]) == ErrorCode.NONE
    adding = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=topic,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(topic, [0])],
    )
    through.send(adding, 3)
    held.wait()
    end_transaction(wire, producer, commit=True, version=versions["end"])
    wait_until(lambda: is_decided(wire, topic), "the transaction is over")
    wait_until(lambda: is_complete(wire, topic), "the coordinator has completed the transaction")
    held.release()
    response = through.answer().results_by_topic_v3_and_below[0].results_by_partition[0]
    code = ErrorCode(response.partition_error_code)
    assert code is (ErrorCode.NONE if spoken == "V1" else ErrorCode.PRODUCER_FENCED)
    assert last_stable_offset(wire, topic) == (2, 2)
    if spoken == "V1":
        wait_until(
            lambda: last_stable_offset(wire, topic) == (3, 3), "the transaction has timed out"
        )
    assert values(wire, topic) == [b"first"]


def test_r14_init_producer_id_retried_after_a_lost_response_gets_the_same_epoch(
    wire: Wire, proxy: Proxy, topic: str
) -> None:
    """A retry of InitProducerId by the same producer gets the same epoch (KIP-360)."""
    producer = new_identity(wire, topic)
    proxy.on(ApiKey.INIT_PRODUCER_ID, Drop(), direction=Direction.RESPONSE)
    with Wire(proxy.address) as through, pytest.raises((Closed, ConnectionResetError)):
        init_producer_id(through, topic, current=producer)
    again = init_producer_id(wire, topic, current=producer)
    assert (again.error_code, again.producer_id) == (ErrorCode.NONE, producer.producer_id)
    assert again.producer_epoch == producer.producer_epoch + 1


@pytest.mark.parametrize("spoken", ["V1", "V2"])
def test_r19_n9_a_batch_that_arrives_after_its_end_txn_is_refused(
    wire: Wire, proxy: Proxy, through: Wire, topic: str, spoken: str
) -> None:
    """No record of a transaction comes after its marker."""
    versions = V1 if spoken == "V1" else V2
    producer = new_identity(wire, topic)
    assert write(wire, topic, producer, 0, b"first", versions["produce"]) == ErrorCode.NONE
    held = Hold()
    proxy.on(ApiKey.PRODUCE, held)
    through.send(producing(producer, topic, batch(producer, 1, value=b"late")), versions["produce"])
    held.wait()
    end_transaction(wire, producer, commit=True, version=versions["end"])
    wait_until(lambda: is_decided(wire, topic), "the transaction is over")
    wait_until(lambda: is_complete(wire, topic), "the coordinator has completed the transaction")
    held.release()
    late = through.answer().responses[0].partition_responses[0]
    assert ErrorCode(late.error_code) in CODES_OF_NO_TRANSACTION
    assert last_stable_offset(wire, topic) == (2, 2)
    assert values(wire, topic) == [b"first"]


def test_r20_a_batch_with_acks_0_on_a_cut_connection_may_be_lost(
    wire: Wire, proxy: Proxy, topic: str
) -> None:
    """With acks=0 and a cut connection, the log has the batch or not. The other batches of the
    transaction are complete."""
    producer = new_identity(wire, topic)
    first = batch(producer, 0, value=b"first")
    assert produce(wire, topic, first, producer=producer, partition=1).error_code == ErrorCode.NONE
    with Wire(proxy.address) as through:
        request = producing(producer, topic, batch(producer, 0, value=b"unheard"), acks=0)
        through.send(request, V2["produce"], answered=False)
    end_transaction(wire, producer, commit=True)
    wait_until(lambda: is_decided(wire, topic), "the transaction is over")
    wait_until(lambda: values(wire, topic, partition=1) == [b"first"], "the marker in partition 1")
    assert values(wire, topic) in ([], [b"unheard"])


@pytest.mark.parametrize("api", [ApiKey.PRODUCE, ApiKey.END_TXN])
def test_n1_an_incomplete_request_has_no_effect(
    wire: Wire, proxy: Proxy, topic: str, api: ApiKey
) -> None:
    """The proxy cuts a request after each of its first bytes, in the middle, and before its last
    byte. Then a whole request arrives."""
    producer = new_identity(wire, topic)
    assert write(wire, topic, producer, 0, b"first", V2["produce"]) == ErrorCode.NONE
    request: Any = (
        producing(producer, topic, batch(producer, 1))
        if api is ApiKey.PRODUCE
        else ending(producer)
    )
    version = V2["produce"] if api is ApiKey.PRODUCE else V2["end"]
    whole = Hold()
    proxy.on(api, whole)
    with Wire(proxy.address) as through:
        through.send(request, version)
        size = len(whole.wait().data)
        for cut in (*range(1, 9), size // 2, size - 1):
            proxy.on(api, Cut(cut))
            with Wire(proxy.address) as other, pytest.raises((Closed, ConnectionResetError)):
                other.call(request, version)
        assert last_stable_offset(wire, topic) == (0, 1)
        whole.release()
        through.answer()
    wait_until(lambda: end_offset(wire, topic) == 2, "the effect of the whole request")


def test_v1m_v1_and_v2_clients_alternate_with_one_transactional_id(wire: Wire, topic: str) -> None:
    """Each instance fences the previous one, no epoch is assigned twice, and every commit
    counts."""
    sent: list[bytes] = []
    seen: list[tuple[int, int]] = []
    for number, versions in enumerate([V1, V2, V2, V1, V2, V1, V1]):
        producer = new_identity(wire, topic, version=3 if versions is V1 else 5)
        seen.append((producer.producer_id, producer.producer_epoch))
        value = b"%d" % number
        assert write(wire, topic, producer, 0, value, versions["produce"]) == ErrorCode.NONE
        commit = number % 3 != 2
        ended = end_transaction(wire, producer, commit=commit, version=versions["end"])
        assert ended.error_code == ErrorCode.NONE
        wait_until(lambda: is_decided(wire, topic), "the transaction is over")
        sent += [value] if commit else []
    assert seen == sorted(set(seen))
    assert len({producer_id for producer_id, _ in seen}) == 1
    assert values(wire, topic) == sent

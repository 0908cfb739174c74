"""Five batches of a transaction are in flight. The broker refuses the first, because the disk has
no space for the record that adds its partition to the transaction (R11). Broker and disk are real.
The clients let the broker add partitions (KIP-890)."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from oncelog.testing.broker import QUICK
from oncelog.testing.proxy import Direction, Hold, Proxy
from oncelog.testing.proxy.frame import message
from oncelog.testing.wire import Wire
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import read_header
from tests.conformance.clients import Client, Record
from tests.harness.broker import Oncelog
from tests.harness.driving import create, merged, values
from tests.harness.waiting import wait_until

BATCHES = 5
# Each value is larger than a client's batch, so each value is in its own batch.
VALUES = [b"%d" % number * 20_000 for number in range(BATCHES)]
# Maximum number of requests for the five batches: a batch is refused and retried while an earlier
# batch is missing.
MOST_REQUESTS = 6 * BATCHES
SETTINGS = merged(QUICK, {"transaction.state.log.num.partitions": "1"})


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy() as proxy:
        yield proxy


@pytest.fixture
def broker(tmp_path: Path, proxy: Proxy) -> Iterator[Oncelog]:
    if sys.platform != "linux":
        pytest.skip("needs prlimit")
    advertised = {"advertised.listeners": f"PLAINTEXT://{proxy.address}"}
    with Oncelog(tmp_path, merged(SETTINGS, advertised)) as broker:
        proxy.target = broker.address
        yield broker


@pytest.fixture
def client_of_version_2(
    request: pytest.FixtureRequest, python_clients: dict[str, Client]
) -> Client:
    """A client that gets a new epoch with each transaction."""
    if request.param == "java":
        java: Client = request.getfixturevalue("java")
        return java
    return python_clients[request.param]


def limit_files(broker: Oncelog, size: int) -> None:
    limits = (size, resource.RLIM_INFINITY)
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, limits)


def sequences(proxy: Proxy) -> list[int]:
    """Return the first sequence number of each batch that the broker got, in order."""
    found = []
    for frame in list(proxy.frames):
        if frame.api is ApiKey.PRODUCE and frame.direction is Direction.REQUEST:
            (topic,) = message(frame).topic_data
            (partition,) = topic.partition_data
            found.append(read_header(partition.records).base_sequence)
    return found


def codes(proxy: Proxy) -> list[ErrorCode]:
    """Return the error codes of the broker's responses."""
    found = []
    for frame in list(proxy.frames):
        if frame.api is ApiKey.PRODUCE and frame.direction is Direction.RESPONSE:
            (topic,) = message(frame).responses
            found.append(ErrorCode(topic.partition_responses[0].error_code))
    return found


@pytest.mark.parametrize(
    ("client_of_version_2", "is_known"),
    # Our client with a new partition is left out: until the partition has a batch of its producer,
    # our client sends one batch at a time.
    [("java", False), ("java", True), ("oncelog-client", True)],
    indirect=["client_of_version_2"],
)
def test_r11_five_batches_are_written_in_order_although_the_first_was_refused(
    broker: Oncelog, proxy: Proxy, client_of_version_2: Client, is_known: bool
) -> None:
    """The disk has space again before the later batches arrive. None of them takes the place of the
    first batch, and after retries each batch is in the log once. `is_known`: the producer has
    written to the partition before."""
    with Wire(broker.address) as wire:
        create(wire, "t")
        producer = client_of_version_2.producer(proxy.address, transactional_id="t")
        producer.init_transactions()
        if is_known:
            producer.begin()
            producer.send("t", [Record(b"before")])
            producer.commit()
        producer.begin()
        proxy.frames.clear()
        refused, others = Hold(), Hold()
        proxy.on(ApiKey.PRODUCE, refused, direction=Direction.RESPONSE)
        proxy.on(ApiKey.PRODUCE, others, nth=2)
        log = broker.data / "__transaction_state-0" / f"{0:020}.log"
        limit_files(broker, log.stat().st_size)
        with ThreadPoolExecutor(1) as thread:
            sent = thread.submit(producer.send, "t", [Record(value) for value in VALUES])
            refused.wait()
            others.wait()
            limit_files(broker, resource.RLIM_INFINITY)
            others.release()
            wait_until(
                lambda: sequences(proxy) == list(range(BATCHES)), "all batches are in flight"
            )
            refused.release()
            offsets = [offset for _, offset in sent.result(60)]
        producer.commit()
        first = 2 if is_known else 0
        assert offsets == list(range(first, first + BATCHES))
        assert values(wire, "t") == [b"before"] * is_known + VALUES
    assert codes(proxy)[:BATCHES] == [
        ErrorCode.NOT_ENOUGH_REPLICAS, *[ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * (BATCHES - 1)
    ]  # fmt: skip
    assert len(sequences(proxy)) <= MOST_REQUESTS

"""Large responses and requests with TLS: a client that does not read takes little memory, and the
last requests of a client that closes are served."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.records.batch import build_batch
from tests.harness.certificates import Certificates
from tests.harness.driving import create, end_offset, taken
from tests.harness.waiting import wait_until
from tests.harness.writing import BY_NAME, produce, records
from tests.security.secured_broker import SecuredOncelog
from tests.security.secured_wire import SecuredWire, context_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

CONSUMERS: Final = 100
# The default of fetch.max.bytes of Kafka's consumers, and the size of a batch of the topic.
ASKED_BYTES: Final = 55 << 20
BATCH_BYTES: Final = 900_000
RSS_GROWTH: Final = 64 << 20
# The last bytes of a producer with acks=0, in requests of about 1 KB.
BURST_BYTES: Final = 200_000
REQUEST_BYTES: Final = 1_000


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[SecuredOncelog]:
    with SecuredOncelog(tmp_path_factory.mktemp("large"), certificates) as broker:
        yield broker


def test_consumers_that_do_not_read_take_little_memory(
    broker: SecuredOncelog, certificates: Certificates
) -> None:
    """100 TLS consumers ask for 55 MiB each, and read only the first bytes. One of them reads on,
    and gets all records."""
    context = context_of(certificates)
    address = broker.address_of("SSL")
    with SecuredWire(address, context) as writer, ExitStack() as stack:
        create(writer, "large", segment_bytes=ASKED_BYTES * 2)
        batch = build_batch(records(value=bytes(BATCH_BYTES)))
        for _ in range(ASKED_BYTES // len(batch) + 1):
            assert produce(writer, "large", batch).error_code == ErrorCode.NONE
        consumers = [stack.enter_context(SecuredWire(address, context)) for _ in range(CONSUMERS)]
        before = taken(broker.pid).rss_bytes
        partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=ASKED_BYTES)
        topics = [FetchTopic(topic="large", partitions=[partition])]
        for consumer in consumers:
            consumer.send(FetchRequest(max_bytes=ASKED_BYTES, topics=topics), 12)
        most = 0
        for consumer in consumers:
            assert consumer.socket.recv(1), "the response begins"
            most = max(most, taken(broker.pid).rss_bytes - before)
        assert most < RSS_GROWTH
        read = 1
        while read < ASKED_BYTES - len(batch):
            read += len(consumers[0].socket.recv(1 << 20))
        assert taken(broker.pid).rss_bytes - before < RSS_GROWTH


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
@pytest.mark.parametrize("says_goodbye", [True, False])
def test_the_last_requests_of_a_client_that_closes_are_served(
    listener: str, says_goodbye: bool, broker: SecuredOncelog, certificates: Certificates
) -> None:
    """A producer with acks=0 sends 200,000 bytes, and closes at once, with TLS with or without
    close_notify."""
    context = context_of(certificates) if listener == "SSL" else None
    topic = f"{listener}-{says_goodbye}"
    with SecuredWire(broker.address_of("PLAINTEXT")) as reader:
        create(reader, topic)
        data = PartitionProduceData(0, build_batch(records(value=bytes(REQUEST_BYTES))))
        request = ProduceRequest(
            acks=0, timeout_ms=10_000, topic_data=[TopicProduceData(topic, partition_data=[data])]
        )
        count = BURST_BYTES // REQUEST_BYTES
        wire = SecuredWire(broker.address_of(listener), context)
        for _ in range(count):
            wire.send(request, BY_NAME, answered=False)
        if isinstance(wire.socket, ssl.SSLSocket) and says_goodbye:
            wire.socket.unwrap()
        wire.socket.close()
        wait_until(lambda: end_offset(reader, topic) == count, "all records are in the log")

"""The reader of committed records waits for what is decided and not yet visible."""

from __future__ import annotations

import threading

from confluent_kafka import Producer

from oncelog.testing import Broker
from oncelog.testing.wire import Wire
from tests.cluster.reading import CALL_S, values
from tests.harness.driving import create
from tests.harness.writing import find_coordinator

WITHOUT_MARKERS_S = 1.0


def test_committed_records_are_read_once_they_have_their_markers() -> None:
    """The commit has its response, and the leader has no marker yet."""
    with Broker() as broker, Wire(broker.address) as wire:
        create(wire, "t", partitions=2)
        find_coordinator(wire, "p")
        producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "p"})
        producer.init_transactions(CALL_S)
        producer.begin_transaction()
        for number in range(2):
            producer.produce("t", f"{number}", partition=number)
        producer.flush(CALL_S)
        broker.faults.disk_full("^t-")
        producer.commit_transaction(CALL_S)
        later = threading.Timer(WITHOUT_MARKERS_S, broker.faults.clear)
        later.start()
        assert values(broker.address, "t", 2) == ["0", "1"]
        later.join()

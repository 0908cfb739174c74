"""Ten thousand transactions that are never ended (scenarios T9, H62)."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.faults.holding import held_ms
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, end_offset, last_stable_offset, values
from tests.harness.writing import BUSY, BY_NAME, Identity, batch, new_identity, produce

# The number of open transactions. All must be open before the first expires.
OPEN = 10_000
PIPELINED = 500
# This process or the broker may wait for a processor for ten seconds.
LEAST_DUE_S = 20.0
# The computer may become this much slower after the first transactions.
DUE_FACTOR = 3
# Timeout of the transactions that stay open during the test.
LONG_S = 800.0
# Maximum CPU time of the broker while a client waits for a small response.
HELD_MS = 50.0


@pytest.mark.timeout(600)  # on a slow machine the transactions are due much later
def test_t9_h62_other_clients_are_served_while_ten_thousand_transactions_are_aborted(
    tmp_path: Path,
) -> None:
    """One scan aborts all transactions, because the broker is suspended before the first expires
    and resumed after the last has expired."""
    with (
        Oncelog(tmp_path, QUICK) as broker,
        Wire(broker.address) as wire,
        Wire(broker.address) as bystander,
    ):
        create(wire, "a", "pace", partitions=2)
        new_identity(wire, "a0")
        due_s = time.monotonic() + due_after_s(wire)
        begin_transactions(wire, "a", OPEN, due_s)
        broker._running().send_signal(signal.SIGSTOP)
        left_s = due_s - time.monotonic()
        assert left_s > 0, "some are aborted before the last is begun"
        time.sleep(left_s)  # the suspension: all transactions are overdue after it
        broker._running().send_signal(signal.SIGCONT)
        in_between: list[float] = []
        while last_stable_offset(bystander, "a") < 2 * OPEN:
            has_begun = end_offset(bystander, "a") > OPEN
            held = held_ms(broker, bystander)
            assert produce(bystander, "a", plain_batch(), partition=1).error_code == 0
            if has_begun and end_offset(bystander, "a") < 2 * OPEN:
                in_between.append(held)
        # While this test waits for a processor, a measurement covers several turns of the broker.
        # Only the shortest measurement counts.
        assert min(in_between) < HELD_MS
        assert values(wire, "a") == []


def due_after_s(wire: Wire) -> float:
    """Return a timeout that is long enough to begin all transactions. Measure it on the
    transactions of another topic."""
    began_s = time.monotonic()
    begin_transactions(wire, "pace", PIPELINED, began_s + LONG_S)
    took_s = time.monotonic() - began_s
    return max(DUE_FACTOR * took_s * OPEN / PIPELINED, LEAST_DUE_S)


def begin_transactions(wire: Wire, topic: str, count: int, due_s: float) -> None:
    """Begin transactions with one record each. Each has its own id, and all expire at the same
    time."""
    wanted = [f"{topic}{number}" for number in range(count)]
    while wanted:
        asked, wanted = wanted[:PIPELINED], wanted[PIPELINED:]
        timeout_ms = max(int((due_s - time.monotonic()) * 1000), 1)
        for name in asked:
            wire.send(InitProducerIdRequest(name, timeout_ms), 4)
        known: list[Identity] = []
        for name in asked:
            answer = wire.answer()
            if answer.error_code == ErrorCode.NONE:
                known.append(Identity(answer.producer_id, answer.producer_epoch, name))
            else:
                assert answer.error_code in BUSY
                wanted.append(name)
        for producer in known:
            partitions = [PartitionProduceData(0, batch(producer, 0))]
            topics = [TopicProduceData(name=topic, partition_data=partitions)]
            wire.send(ProduceRequest(producer.transactional_id, -1, 10_000, topics), BY_NAME)
        for _ in known:
            answer = wire.answer()
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def plain_batch() -> bytearray:
    return batch(Identity(-1, -1), -1)

"""Against a model of the broker's rules: every record is written once and in order."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.batch import Batch
from oncelog_client.batching import Fate
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import read_records
from oncelog_protocol.records.record import EncodedRecords, NewRecord
from tests.client.accumulators import TP, accumulator


@dataclass
class ModelBroker:
    """One partition's log as KIP-98 has it: in order, once, whatever is lost on the way."""

    epoch: int = -1
    next_sequence: int = 0
    log: list[int] = field(default_factory=list)
    seen: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=5))

    def append(self, batch: Batch[int]) -> ErrorCode:
        epoch, sequence = batch.identity.producer_epoch, batch.base_sequence
        if epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if (epoch, sequence) in self.seen:
            return ErrorCode.NONE
        if self.epoch < 0:
            # It does not know the producer, so that any sequence is a beginning.
            self.epoch, self.next_sequence = epoch, sequence
        if epoch > self.epoch:
            if sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            self.epoch, self.next_sequence = epoch, 0
        if sequence != self.next_sequence:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.seen.append((epoch, sequence))
        self.next_sequence += batch.count
        self.log += [int(row.value or b"") for row in read_records(batch.wire, max_bytes=1 << 20)]
        return ErrorCode.NONE


ACTIONS = st.sampled_from(
    [
        "append", "append three", "send", "ok",
        "lost request", "lost answer", "leader moved", "too large",
    ]
)  # fmt: skip


def numbered(number: int) -> NewRecord:
    return NewRecord(1000, None, b"%040d" % number)


@given(st.lists(ACTIONS, max_size=120))
def test_every_record_is_written_once_and_in_order_whatever_gets_lost(actions: list[str]) -> None:
    acc = accumulator(batch_size=150, linger_ms=0)
    broker = ModelBroker()
    wire: deque[Batch[int]] = deque()
    now, count = 0.0, 0
    for action in [*actions, *(["send", "ok"] * (len(actions) + 20))]:
        # Far below the delivery time-out: nothing is given up in this test.
        now += 0.001
        if action == "append":
            acc.append(TP, numbered(count), count, now)
            count += 1
        elif action == "append three":
            encoded = EncodedRecords.of([numbered(count + more) for more in range(3)])
            acc.append_encoded(TP, encoded, count, now)
            count += 3
        elif action == "send":
            wire.extend(acc.drain([TP], now + 500, 1 << 20))
        elif wire:
            batch = wire.popleft()
            if action in ("ok", "lost answer"):
                code = broker.append(batch)
            else:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if action.startswith("lost"):
                code = ErrorCode.NETWORK_EXCEPTION
            place = (batch.identity.producer_epoch, batch.base_sequence)
            # What it has taken once is not too large for it.
            if action == "too large" and batch.count > 1 and place not in broker.seen:
                assert acc.failed(batch, ErrorCode.MESSAGE_TOO_LARGE, now, 0.5) is Fate.SPLIT
            elif code is ErrorCode.NONE:
                acc.succeeded(batch)
            else:
                assert acc.failed(batch, code, now, 0.5) is Fate.RETRIED
    assert broker.log == list(range(count))
    assert acc.oldest_serial() is None
    assert acc.buffered_bytes == 0

"""The accumulator against a model of the broker's rules. The broker writes every record once and in
order, and an expired record at most once."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from oncelog_client.core.batch import Batch, BatchState
from oncelog_client.core.batching import Accumulator, SendOutcome
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import read_records
from oncelog_protocol.records.record import EncodedRecords, NewRecord
from tests.client.accumulators import TP, accumulator


def numbers(batch: Batch[int]) -> list[int]:
    return [int(row.value or b"") for row in read_records(batch.wire, max_bytes=1 << 20)]


@dataclass
class ModelBroker:
    """One partition's log by the rules of KIP-98. The log gets each batch once and in order,
    although the network loses messages."""

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
            # A log that does not know the producer accepts any first sequence number.
            self.epoch, self.next_sequence = epoch, sequence
        if epoch > self.epoch:
            if sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            self.epoch, self.next_sequence = epoch, 0
        if sequence != self.next_sequence:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.seen.append((epoch, sequence))
        self.next_sequence += batch.count
        self.log += numbers(batch)
        return ErrorCode.NONE


ACTIONS = st.sampled_from(
    [
        "append", "append three", "send", "ok",
        "lost request", "lost answer", "leader moved", "too large",
    ]
)  # fmt: skip


def numbered(number: int) -> NewRecord:
    return NewRecord(1000, None, b"%040d" % number)


@dataclass
class World:
    """A producer of one partition, its broker, and the messages between them."""

    acc: Accumulator[int] = field(default_factory=lambda: accumulator(batch_size=150, linger_ms=0))
    broker: ModelBroker = field(default_factory=ModelBroker)
    wire: deque[Batch[int]] = field(default_factory=deque)
    now: float = 0.0
    count: int = 0
    acknowledged: set[int] = field(default_factory=set)
    given_up: set[int] = field(default_factory=set)

    def act(self, action: str) -> None:
        # The steps take far less than the delivery timeout, so only "time passes" expires batches.
        self.now += 0.001
        if action == "append":
            self.acc.append(TP, numbered(self.count), self.count, self.now)
            self.count += 1
        elif action == "append three":
            encoded = EncodedRecords.of([numbered(self.count + more) for more in range(3)])
            self.acc.append_encoded(TP, encoded, self.count, self.now)
            self.count += 3
        elif action == "time passes":
            self.now += 600
            for batch in self.acc.expire(self.now):
                # `append_encoded` gets one delivery for its three records: here the number of the
                # first record. Each part of a split batch keeps this delivery.
                more = 1 if batch.encoded is None else 3
                for delivery in batch.deliveries:
                    self.given_up.update(range(delivery, delivery + more))
        elif action == "send":
            self.wire.extend(self.acc.drain([TP], self.now + 100, 1 << 20))
        elif self.wire:
            self.come_back(self.wire.popleft(), action)

    def come_back(self, batch: Batch[int], action: str) -> None:
        if action in ("ok", "lost answer"):
            code = self.broker.append(batch)
        else:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if action.startswith("lost"):
            code = ErrorCode.NETWORK_EXCEPTION
        place = (batch.identity.producer_epoch, batch.base_sequence)
        forgotten = batch.state is BatchState.DONE
        # A batch that the broker has accepted before cannot be too large.
        if action == "too large" and batch.count > 1 and place not in self.broker.seen:
            outcome = self.acc.failed(batch, ErrorCode.MESSAGE_TOO_LARGE, self.now, 0.5)
            assert outcome is (SendOutcome.FORGOTTEN if forgotten else SendOutcome.SPLIT)
        elif code is ErrorCode.NONE:
            self.acc.succeeded(batch)
            self.acknowledged.update(() if forgotten else numbers(batch))
        else:
            outcome = self.acc.failed(batch, code, self.now, 0.5)
            assert outcome is (SendOutcome.FORGOTTEN if forgotten else SendOutcome.RETRIED)

    def finish(self) -> None:
        """Lose no further message, and deliver everything."""
        for _ in range(2 * self.count + 20):
            self.act("send")
            self.act("ok")
        assert self.acc.oldest_serial() is None
        assert self.acc.buffered_bytes == 0


@given(st.lists(ACTIONS, max_size=120))
def test_every_record_is_written_once_and_in_order_whatever_gets_lost(actions: list[str]) -> None:
    world = World()
    for action in actions:
        world.act(action)
    world.finish()
    assert world.broker.log == list(range(world.count))


# Some steps come in pairs, because an expired batch matters only if a later batch has no response
# either.
STEPS = st.sampled_from(
    [
        "append, send", "append three, send", "send", "ok", "leader moved", "too large",
        "lost answer", "lost answer, lost answer", "lost request, lost request", "time passes",
    ]
).map(lambda step: step.split(", "))  # fmt: skip


# The leader has written both batches when the connection breaks. The older batch expires before its
# retry.
GIVEN_UP = [
    "append, send",
    "time passes",
    "append, send",
    "lost answer, lost answer",
    "time passes",
]


@example([step.split(", ") for step in GIVEN_UP])
@given(st.lists(STEPS, max_size=60))
def test_the_records_that_do_not_expire_are_written_once_and_in_order(
    steps: list[list[str]],
) -> None:
    world = World()
    for action in ["append", "send", "ok", *(action for step in steps for action in step)]:
        world.act(action)
    world.finish()
    log = world.broker.log
    assert log == sorted(set(log))
    assert world.acknowledged <= set(log)
    assert set(range(world.count)) - set(log) <= world.given_up

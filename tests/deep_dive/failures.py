"""The seven failures in the article, the transaction deep dive ("Guarantees in failures
scenarios"), and the evidence for the outcome of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from examples.purchases.billing import GROUP
from oncelog.testing.proxy import Cut, Direction, Drop, Hold
from oncelog.testing.wire import Wire
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.internal.transaction_log import TransactionState
from tests.deep_dive.asking import Events, transactions
from tests.deep_dive.deaths import Death, die
from tests.deep_dive.on_disk import Step, read_logs
from tests.deep_dive.outcomes import as_described, coordinator, group_coordinator, leader
from tests.deep_dive.outside import Outside
from tests.deep_dive.pipeline import Pipeline
from tests.deep_dive.produced import acknowledged, sent
from tests.harness.writing import Identity, produce
from tests.harness.writing import batch as new_batch

# The steps at which the broker dies: as the coordinator of a transaction, as the leader of a
# partition, as the coordinator of a group. `after-marker:4` is the step after the fourth marker. A
# transaction of a worker has markers in up to 12 partitions and in the group's partition.
COORDINATOR_STEPS: Final = (
    "before-add-partitions",
    "after-add-partitions",
    "before-prepare",
    "after-prepare",
    "before-marker",
    "after-marker:4",
    "before-complete",
    "after-complete",
    "answer-end-txn",
)
LEADER_STEPS: Final = ("before-data:8", "torn-data:8", "after-data:8", "answer-produce")
GROUP_STEPS: Final = (
    "before-txn-offsets",
    "after-txn-offsets",
    "answer-txn-offset-commit",
    "before-offsets-marker",
    "after-offsets-marker",
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure. `inflict` causes it while `portion` purchases are billed, and yields the system's
    reactions. It raises AssertionError if the outcome is not the article's."""

    number: int
    title: str
    article: str
    inflict: Callable[[Pipeline, int], Iterator[str]]


# --- 1


def lose_produce_frames(pipeline: Pipeline, portion: int) -> Iterator[str]:
    """Lose a Produce before it reaches the broker, and the response to another Produce."""
    since = len(pipeline.proxy.frames)
    cut, lost = Cut(40), Drop()
    pipeline.proxy.on(ApiKey.PRODUCE, cut, client_id="billing-0")
    pipeline.proxy.on(ApiKey.PRODUCE, lost, client_id="billing-0", direction=Direction.RESPONSE)
    pipeline.feed(portion)
    half, answer = cut.wait(), lost.wait()
    pipeline.wait_until_billed()
    names = pipeline.names()
    answered = list(acknowledged(list(pipeline.proxy.frames)[since:], names))
    there = read_logs(pipeline.broker.data, GROUP).data
    again = {
        batch: offset for frame, batch, offset in answered if frame.connection > half.connection
    }
    for batch in sent(half, names):
        assert there[batch] == [again[batch]], (batch, there.get(batch), again.get(batch))
    yield (
        f"a Produce of {_count(sent(half, names), 'batch', 'batches')} was cut off on its way: the "
        f"producer sent it again on a new connection, and each batch is in the log once"
    )
    first = {batch: offset for frame, batch, offset in answered if frame is answer}
    second = {
        batch: offset for frame, batch, offset in answered if frame.connection > answer.connection
    }
    assert first, "the lost response acknowledged no batch"
    assert first.items() <= second.items(), (first, second)
    assert all(there[batch] == [offset] for batch, offset in first.items()), (first, there)
    batch, offset = next(iter(first.items()))
    yield (
        f"the response for {_count(first, 'batch', 'batches')} was lost on its way: the retry got "
        f"the first offsets (sequence number {batch.base_sequence} of {batch.place.topic}-"
        f"{batch.place.partition} is at {offset}), and each batch is in the log once"
    )


def _count(things: Iterable[object], single: str, many: str) -> str:
    number = sum(1 for _ in things)
    return f"{number} {single if number == 1 else many}"


# --- 2


def kill_producer(pipeline: Pipeline, portion: int) -> Iterator[str]:
    """Send SIGKILL to worker 0 when the logs have everything of its transaction except the end."""
    ending = Drop(cut=False)
    pipeline.proxy.on(ApiKey.END_TXN, ending, client_id="billing-0")
    pipeline.feed(portion)
    ending.wait()
    worker = pipeline.workers[0]
    worker.kill()
    since, events = len(pipeline.proxy.frames), Events(pipeline.broker)
    left = _open_transaction(pipeline)
    yield (
        f"the worker was killed before its EndTxn reached the broker: its transaction is "
        f"{left.name}, with producer {left.producer_id}, epoch {left.producer_epoch} and "
        f"{len(left.places)} partitions"
    )
    worker.start()
    pipeline.wait(lambda: identity_of(pipeline, 0, since) is not None, "a new producer")
    pipeline.wait_until_billed()
    after = identity_of(pipeline, 0, since)
    assert after is not None
    assert after.producer_id == left.producer_id, (after, left)
    assert after.producer_epoch > left.producer_epoch, (after, left)
    yield _aborted_for_the_heir(pipeline, left, events)
    yield (
        f"the next instance got the same producer id {after.producer_id} and epoch "
        f"{after.producer_epoch}"
    )


def _open_transaction(pipeline: Pipeline) -> Step:
    """Return the transaction of worker 0. The log and the coordinator must agree on it."""
    left = read_logs(pipeline.broker.data, GROUP).last()["billing-0"]
    with Wire(pipeline.broker.address) as wire:
        described = transactions(wire)["billing-0"]
    assert described == as_described(left), (described, left)
    assert left.state is TransactionState.ONGOING, left
    return left


def _aborted_for_the_heir(pipeline: Pipeline, left: Step, events: Events) -> str:
    """Check that the transaction that the previous producer left open was aborted for the next
    instance. Return a line about it."""
    logs = read_logs(pipeline.broker.data, GROUP)
    ends = [
        step.name
        for step in logs.steps["billing-0"]
        if step.started_ms == left.started_ms and step.state is not TransactionState.ONGOING
    ]
    assert ends == ["PrepareAbort", "CompleteAbort"], ends
    fences = [
        (event["cause"], event["producer_id"], event["producer_epoch"])
        for event in events.of("transaction aborted")
        if event["transactional_id"] == "billing-0"
    ]
    assert fences == [("newer instance", left.producer_id, left.producer_epoch)], fences
    return (
        f"after the next instance's InitProducerId: {', '.join(ends)} in the coordinator's log, "
        f"and the event “transaction aborted” with cause {fences[0][0]}, producer {fences[0][1]} "
        f"and epoch {fences[0][2]}"
    )


def identity_of(pipeline: Pipeline, number: int, since: int = 0) -> Identity | None:
    """Return the identity that a worker's last successful InitProducerId got. Return None if the
    proxy has seen no such response since frame `since`."""
    name = f"billing-{number}"
    answers = pipeline.said(Direction.RESPONSE, ApiKey.INIT_PRODUCER_ID, name, since)
    given = [response for _, response in answers if response.error_code == ErrorCode.NONE]
    if not given:
        return None
    return Identity(given[-1].producer_id, given[-1].producer_epoch, name)


# --- 3


def wake_a_zombie(pipeline: Pipeline, portion: int) -> Iterator[str]:
    """Send SIGSTOP to worker 0 in a transaction, start a new instance of it, then send SIGCONT."""
    zombie = pipeline.workers[0]
    ending = Hold()
    pipeline.proxy.on(ApiKey.END_TXN, ending, client_id="billing-0")
    pipeline.feed(portion)
    ending.wait()
    zombie.suspend()
    since, events = len(pipeline.proxy.frames), Events(pipeline.broker)
    left = _open_transaction(pipeline)
    heir = pipeline.worker(0)
    heir.start()
    pipeline.workers[0] = heir
    try:
        pipeline.wait(lambda: identity_of(pipeline, 0, since) is not None, "the heir's epoch")
        old = request_identity(pipeline, ending)
        assert (old.producer_id, old.producer_epoch) == (left.producer_id, left.producer_epoch)
        ending.release()
        zombie.resume()
        pipeline.wait(lambda: zombie.counts["fenced"], "the zombie is fenced")
    finally:
        zombie.resume()
        zombie.stop()
    yield _aborted_for_the_heir(pipeline, left, events)
    refused = _answer_to_end_txn(pipeline, old, since)
    assert refused is ErrorCode.PRODUCER_FENCED, refused
    causes = [event["cause"] for event in events.of("producer refused")]
    assert "newer instance" in causes, causes
    yield f"the zombie's EndTxn got {refused.name}, logged as “producer refused”"
    with Wire(pipeline.broker.address) as wire:
        late = produce(wire, "invoices", new_batch(old, 0), producer=old)
    code = ErrorCode(late.error_code)
    assert code is ErrorCode.INVALID_PRODUCER_EPOCH, code
    pipeline.wait_until_billed()
    yield f"a batch with the zombie's epoch {old.producer_epoch} got {code.name}"


def _answer_to_end_txn(pipeline: Pipeline, producer: Identity, since: int) -> ErrorCode:
    """Return the error code of the last response to EndTxn that this producer got, from frame
    `since` on."""
    asked = pipeline.said(Direction.REQUEST, ApiKey.END_TXN, "billing-0")
    places = {
        (frame.connection, frame.correlation_id)
        for frame, message in asked
        if (message.producer_id, message.producer_epoch)
        == (producer.producer_id, producer.producer_epoch)
    }
    answers = pipeline.said(Direction.RESPONSE, ApiKey.END_TXN, "billing-0", since)
    codes = [
        ErrorCode(response.error_code)
        for frame, response in answers
        if (frame.connection, frame.correlation_id) in places
    ]
    assert codes, "no response to the zombie's EndTxn"
    return codes[-1]


def request_identity(pipeline: Pipeline, ending: Hold) -> Identity:
    """Return the producer of the EndTxn that the proxy holds back."""
    held = ending.wait()
    asked = pipeline.said(Direction.REQUEST, ApiKey.END_TXN, held.client_id)
    request = next(message for frame, message in asked if frame is held)
    return Identity(request.producer_id, request.producer_epoch, request.transactional_id)


# --- 4


def kill_consumer(pipeline: Pipeline, portion: int) -> Iterator[str]:
    """Kill a consumer between its effect outside the log and the commit of its offset."""
    pipeline.feed(portion)
    pipeline.wait_until_billed()
    outside = Outside(pipeline)
    done = outside.run_killed_before_its_commit()
    yield f"the consumer was killed after {len(done)} parcels, and its OffsetCommit was lost"
    again = outside.run_to_the_end()
    twice = len(done & again)
    assert twice == len(done) > 0, (twice, len(done))
    assert len(done | again) == len(pipeline.fed), (len(done | again), len(pipeline.fed))
    assert outside.calls() == len(done) + len(again), (outside.calls(), len(done), len(again))
    yield (
        f"the next consumer sent {len(again)} parcels: for {len(pipeline.fed)} purchases, {twice} "
        f"parcels were sent twice, outside the log"
    )


# --- 5, 6, 7


def kill_broker_at(
    steps: tuple[str, ...], outcome: Callable[[Death], Iterator[str]]
) -> Callable[[Pipeline, int], Iterator[str]]:
    """Return a function for `Failure.inflict`. It lets the broker kill itself at each of the steps,
    and restarts it on the same files."""

    def inflict(pipeline: Pipeline, portion: int) -> Iterator[str]:
        for step in steps:
            yield from outcome(die(pipeline, step, portion // len(steps)))

    return inflict


FAILURES: Final = (
    Failure(
        1,
        "a send fails",
        "the producer will retry. Because transactions require idempotency, the retry is safe",
        lose_produce_frames,
    ),
    Failure(
        2,
        "a producer dies",
        "aborts all ongoing transactions … but bumps the producer epoch",
        kill_producer,
    ),
    Failure(
        3,
        "a producer hangs and wakes up",
        "the old producer will be considered a zombie and will be fenced",
        wake_a_zombie,
    ),
    Failure(4, "a consumer dies", "duplicated processing may happen", kill_consumer),
    Failure(
        5,
        "the transaction coordinator dies",
        "there is no need to abort transactions started before the crash",
        kill_broker_at(COORDINATOR_STEPS, coordinator),
    ),
    Failure(
        6,
        "a partition's leader dies",
        "replicas have up-to-date sequence numbers",
        kill_broker_at(LEADER_STEPS, leader),
    ),
    Failure(
        7,
        "the group's coordinator dies",
        "the transaction will continue as normal",
        kill_broker_at(GROUP_STEPS, group_coordinator),
    ),
)

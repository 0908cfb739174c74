"""The seven failures, as the article tells them, and what has to be seen of each (deep dive,
"Guarantees in failures scenarios")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import read_header
from tests.conformance.wire import Wire
from tests.conformance.writing import Identity, batch, produce
from tests.deep_dive.outside import Outside
from tests.deep_dive.pipeline import Pipeline
from tests.proxy import Cut, Direction, Drop, Frame, Hold
from tests.proxy.frame import message

# Where the broker dies: as the coordinator of a transaction, as the leader of a partition, as the
# coordinator of a group. Transactions of the workers have markers in up to 12 partitions and the
# group's.
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
LEADER_STEPS: Final = ("before-data:8", "torn-data:8", "after-data:8", "answer-produce:3")
GROUP_STEPS: Final = (
    "before-txn-offsets",
    "after-txn-offsets",
    "answer-txn-offset-commit",
    "before-offsets-marker",
    "after-offsets-marker",
)


@dataclass(frozen=True, slots=True)
class Failure:
    """`inflict` makes it happen while `portion` purchases are billed and says what the system did.
    Raises AssertionError if that is not what has to be."""

    number: int
    title: str
    article: str
    inflict: Callable[[Pipeline, int], Iterator[str]]


# --- 1


def lose_produce_frames(pipeline: Pipeline, portion: int) -> Iterator[str]:
    """Once on the way to the broker, once on the way back."""
    since = len(pipeline.proxy.frames)
    lost, lost_answer = Cut(40), Drop()
    pipeline.proxy.on(ApiKey.PRODUCE, lost, client_id="billing-0")
    pipeline.proxy.on(
        ApiKey.PRODUCE, lost_answer, client_id="billing-0", direction=Direction.ANSWER
    )
    pipeline.feed(portion)
    lost.wait()
    answer = lost_answer.wait()
    pipeline.wait_until_billed()
    told = dict(_told(pipeline, answer))
    answered = pipeline.said(Direction.ANSWER, ApiKey.PRODUCE, "billing-0", since)
    later = [one for one, _ in answered if one.connection > answer.connection]
    told_again = {batch: offset for one in later for batch, offset in _told(pipeline, one)}
    assert told.items() <= told_again.items(), (told, told_again)
    yield "a Produce cut off on its way: the producer sent it again, on a new connection"
    yield "an answer lost on its way: the same sequences came again, and were answered with the"
    yield "offsets of the first time: nothing was appended"


def _told(pipeline: Pipeline, answer: Frame) -> Iterator[tuple[tuple[object, ...], int]]:
    """What a broker knows each batch by, and the offset it says it has."""
    wanted = (Direction.REQUEST, answer.connection, answer.correlation_id)
    request = next(
        one
        for one in pipeline.proxy.frames
        if (one.direction, one.connection, one.correlation_id) == wanted
    )
    offsets = {
        (topic.name or topic.topic_id, one.index): one.base_offset
        for topic in message(answer).responses
        for one in topic.partition_responses
    }
    for topic in message(request).topic_data:
        for data in topic.partition_data:
            place = (topic.name or topic.topic_id, data.index)
            header = read_header(data.records)
            producer = (header.producer_id, header.producer_epoch, header.base_sequence)
            yield (*place, *producer), offsets[place]


# --- 2


def kill_producer(pipeline: Pipeline, portion: int) -> Iterator[str]:
    """SIGKILL when everything of a transaction is in the logs except its end."""
    before = identity_of(pipeline, 0)
    ending = Drop(cut=False)
    pipeline.proxy.on(ApiKey.END_TXN, ending, client_id="billing-0")
    pipeline.feed(portion)
    ending.wait()
    worker = pipeline.workers[0]
    worker.kill()
    since = len(pipeline.proxy.frames)
    worker.start()
    pipeline.wait(lambda: identity_of(pipeline, 0, since) is not None, "a new producer")
    pipeline.wait_until_billed()
    after = identity_of(pipeline, 0, since)
    assert before is not None
    assert after is not None
    assert after.producer_id == before.producer_id
    assert after.producer_epoch > before.producer_epoch
    yield f"the next instance got the same producer id {after.producer_id} and a newer epoch:"
    yield f"{before.producer_epoch} at the dead one's start, {after.producer_epoch} now; what the"
    yield "dead one had left open was aborted first, and billed again"


def identity_of(pipeline: Pipeline, number: int, since: int = 0) -> Identity | None:
    """What the last InitProducerId of a worker was answered."""
    name = f"billing-{number}"
    answers = pipeline.said(Direction.ANSWER, ApiKey.INIT_PRODUCER_ID, name, since)
    given = [one for _, one in answers if one.error_code == ErrorCode.NONE]
    if not given:
        return None
    return Identity(given[-1].producer_id, given[-1].producer_epoch, name)


# --- 3


def wake_a_zombie(pipeline: Pipeline, portion: int) -> Iterator[str]:
    """SIGSTOP in a transaction, a new instance, SIGCONT."""
    zombie = pipeline.workers[0]
    ending = Hold()
    pipeline.proxy.on(ApiKey.END_TXN, ending, client_id="billing-0")
    pipeline.feed(portion)
    ending.wait()
    zombie.suspend()
    since = len(pipeline.proxy.frames)
    heir = pipeline.worker(0)
    heir.start()
    pipeline.workers[0] = heir
    try:
        pipeline.wait(lambda: identity_of(pipeline, 0, since) is not None, "the heir's epoch")
        old = request_identity(pipeline, ending)
        ending.release()
        zombie.resume()
        pipeline.wait(lambda: zombie.counts["fenced"], "the zombie is fenced")
    finally:
        zombie.resume()
        zombie.stop()
    answers = pipeline.said(Direction.ANSWER, ApiKey.END_TXN, "billing-0", since)
    codes = {ErrorCode(one.error_code).name for _, one in answers}
    assert ErrorCode.PRODUCER_FENCED.name in codes, codes
    with Wire(pipeline.broker.address) as wire:
        late = produce(wire, "invoices", batch(old, 0), who=old)
    assert late.error_code == ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode(late.error_code)
    pipeline.wait_until_billed()
    yield "its commit was refused with PRODUCER_FENCED, a batch with its epoch with"
    yield "INVALID_PRODUCER_EPOCH; its transaction was aborted when the new instance came"


def request_identity(pipeline: Pipeline, ending: Hold) -> Identity:
    """Whose EndTxn is held."""
    held = ending.wait()
    asked = pipeline.said(Direction.REQUEST, ApiKey.END_TXN, held.client_id)
    request = next(one for frame, one in asked if frame is held)
    return Identity(request.producer_id, request.producer_epoch, request.transactional_id)


# --- 4


def kill_consumer(pipeline: Pipeline, portion: int) -> Iterator[str]:
    """Killed between what it does to the world and the commit of its offset."""
    pipeline.feed(portion)
    pipeline.wait_until_billed()
    outside = Outside(pipeline)
    done = outside.run_killed_before_its_commit()
    again = outside.run_to_the_end()
    twice = len(done & again)
    assert twice == len(done) > 0
    assert len(done | again) == len(pipeline.fed)
    assert outside.calls() == len(done) + len(again)
    yield f"{twice} parcels were sent twice: what a consumer does outside the log is not part of"
    yield "any transaction, as the article says; every shipment is in the log once"


# --- 5, 6, 7


def kill_broker_at(steps: tuple[str, ...], told: str) -> Callable[[Pipeline, int], Iterator[str]]:
    """SIGKILL by itself at each of the steps, and a start on the same files."""

    def inflict(pipeline: Pipeline, portion: int) -> Iterator[str]:
        for step in steps:
            seconds = pipeline.die_at(step, portion // len(steps))
            yield f"killed at {step:25} all billed {seconds:.1f} s after its death"
        yield told

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
        kill_broker_at(COORDINATOR_STEPS, "each time it read its log and went on from there"),
    ),
    Failure(
        6,
        "a partition's leader dies",
        "replicas have up-to-date sequence numbers",
        kill_broker_at(LEADER_STEPS, "it knew from its log what it had, and took only the rest"),
    ),
    Failure(
        7,
        "the group's coordinator dies",
        "the transaction will continue as normal",
        kill_broker_at(
            GROUP_STEPS, "pending offsets were pending again until the transaction's end"
        ),
    ),
)

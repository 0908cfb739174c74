"""Compares the observations of failures 5 to 7 (a dead coordinator, leader, and group coordinator)
with the outcomes that the article "transaction deep dive" describes. Each function yields lines
about the observations, and raises AssertionError if they differ from the article."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.internal.transaction_log import TransactionState
from tests.deep_dive.deaths import Death
from tests.deep_dive.on_disk import DECIDED, ENDED, OFFSETS, OPEN, OUTPUTS, Logs, Step
from tests.deep_dive.produced import acknowledged

PREPARE_ABORT: Final = TransactionState.PREPARE_ABORT
# For each fail point, a check of the dead broker's logs. The first argument has the additions since
# this run's purchases were fed, the second has the whole logs.
LANDED: Final[Mapping[str, Callable[[Logs, Logs], object]]] = {
    "before-add-partitions": lambda new, whole: not new.count(OPEN),
    "after-add-partitions": lambda new, whole: new.count(OPEN) == 1 and whole.ends(OPEN),
    "before-prepare": lambda new, whole: not new.count(*DECIDED) and whole.ends(OPEN),
    "after-prepare": lambda new, whole: not new.markers and whole.ends(*DECIDED),
    "before-marker": lambda new, whole: not new.markers and whole.ends(*DECIDED),
    "after-marker:4": lambda new, whole: new.markers.total() == 4 and whole.ends(*DECIDED),
    "before-complete": lambda new, whole: not new.count(*ENDED) and whole.ends(*DECIDED),
    "after-complete": lambda new, whole: new.count(*ENDED) == 1,
    "answer-end-txn": lambda new, whole: new.count(*DECIDED),
    "before-data:8": lambda new, whole: len(new.data) == 7,
    "torn-data:8": lambda new, whole: len(new.data) == 7,
    "after-data:8": lambda new, whole: len(new.data) == 8,
    "answer-produce": lambda new, whole: new.data,
    "before-txn-offsets": lambda new, whole: not whole.pending,
    "after-txn-offsets": lambda new, whole: len(whole.pending) == 1,
    "answer-txn-offset-commit": lambda new, whole: whole.pending,
    "before-offsets-marker": lambda new, whole: whole.pending and not new.markers_in(OFFSETS),
    "after-offsets-marker": lambda new, whole: (
        new.markers_in(OFFSETS) == 1 and whole.ends(*DECIDED)
    ),
}


def landed(death: Death) -> Iterator[str]:
    """Check with the logs of the dead broker that it died at its fail point."""
    written, whole = death.written, death.at_death
    assert LANDED[death.point](written, whole), f"not a death at {death.point}: {written}"
    seen = [
        f"{step.name} of {name} ({len(step.places)} partitions)"
        for name, step in sorted(whole.ends(OPEN, *DECIDED).items())
    ]
    batches, markers = len(written.data), written.markers.total()
    yield (
        f"the broker was killed at {death.point}: its logs end with "
        f"{', '.join(seen) or 'no open transaction'}; this run wrote {batches} batches and "
        f"{markers} markers"
    )


# --- 5


def coordinator(death: Death) -> Iterator[str]:
    """The article: "No need to abort". The restarted coordinator completes decided transactions
    with their results, before any client connects. An open transaction stays open until its own
    producer ends it."""
    yield from landed(death)
    said: list[str] = []
    for name, step in sorted(death.at_death.last().items()):
        if step.state in DECIDED:
            said.append(_completed(death, step))
            _assert_answered(death, [step])
        elif step.state is OPEN:
            assert death.alone.transactions[name] == as_described(step), (
                f"{name} was {step}, and is {death.alone.transactions[name]} after the start"
            )
            said.append(f"{name} is still {step.name}")
        else:
            assert death.alone.transactions[name].state == step.name, (
                f"{name} was {step}, and is {death.alone.transactions[name]} after the start"
            )
    ended = [steps[-1] for steps in death.written.steps.values() if steps[-1].state in ENDED]
    said += [f"{step.transactional_id} is still {step.name}" for step in ended]
    if death.point in ("after-complete", "answer-end-txn"):
        _assert_answered(death, ended)
    yield f"after the restart, without clients: {', '.join(said) or 'nothing to continue'}"
    yield from went_on(death)


def as_described(step: Step) -> tuple[object, ...]:
    """Return the coordinator's expected description of a transaction after this step."""
    return step.name, step.producer_id, step.producer_epoch, step.started_ms, step.places


def _completed(death: Death, step: Step) -> str:
    """Check that the restarted coordinator completed a decision in the dead coordinator's log."""
    name, decision = step.transactional_id, step.name
    wanted = step.name.replace("Prepare", "Complete")
    now = death.alone.logs.last()[name]
    assert (now.name, now.producer_id, now.started_ms) == (
        wanted,
        step.producer_id,
        step.started_ms,
    ), f"{decision} of {name} became {now.name} without a client"
    had, has = death.written.markers, death.alone.logs.since(death.before).markers
    new = has - had
    keys = [(step.producer_id, place) for place in step.places]
    assert all(has[key] for key in keys), f"markers of {name} are missing: {has}"
    return (
        f"{decision} of {name} became {now.name}: the log had {sum(map(had.__getitem__, keys))} "
        f"markers, the restarted coordinator wrote {sum(map(new.__getitem__, keys))}"
    )


def _assert_answered(death: Death, steps: list[Step]) -> None:
    """Check that at least one producer of these steps has the result of its EndTxn, from the old
    coordinator or by a retry. The producer's epoch is one below the step's epoch, because the end
    of a transaction bumps the epoch."""
    codes = death.ends()
    found_codes = [codes.get((step.producer_id, step.producer_epoch - 1)) for step in steps]
    assert ErrorCode.NONE in found_codes, f"no producer learned how {steps} ended: {codes}"


# --- 6


def leader(death: Death) -> Iterator[str]:
    """The partitions know their batches from their logs. A resent batch gets its first offset, and
    other batches are appended."""
    yield from landed(death)
    torn = death.events.of("log recovered")
    if death.point.startswith("torn"):
        assert any(event["cut_bytes"] > 0 for event in torn), "no torn batch was found"
    for event in torn:
        cut, partition = event["cut_bytes"], event["partition"]
        yield f"after the restart: {cut} bytes of a torn batch were cut off {partition}"
    logged = {key: tail for key, tail in death.alone.logs.tails.items() if key[1].topic in OUTPUTS}
    assert logged == death.alone.tails, (logged, death.alone.tails)
    yield f"after the restart, without clients: {len(logged)} last sequence numbers, as in the logs"
    again = appended = 0
    for _, batch, offset in acknowledged(death.frames, death.names):
        assert death.after.data[batch] == [offset], (batch, offset, death.after.data[batch])
        before = death.at_death.data.get(batch)
        assert before in (None, [offset]), (batch, offset, before)
        again, appended = again + (before is not None), appended + (before is None)
    if death.point.startswith(("after", "answer")):
        assert again, "no batch that was logged without a response was sent again"
    assert all(len(there) == 1 for there in death.after.data.values()), (
        "a batch is in the log twice"
    )
    yield (
        f"with clients again: {again} resent batches got their first offsets, {appended} batches "
        f"were appended, and each batch is in the log once"
    )
    yield from went_on(death)


# --- 7


def group_coordinator(death: Death) -> Iterator[str]:
    """Offsets of an open transaction are pending again. Offsets of a transaction with a decided
    commit are committed."""
    yield from landed(death)
    open_ids = {step.producer_id for step in death.at_death.ends(OPEN).values()}
    found: Counter[str] = Counter()
    for producer_id, offsets in death.at_death.pending.items():
        for place, offset in offsets.items():
            stable, plain = death.alone.stable[place], death.alone.plain[place]
            if producer_id in open_ids:
                assert stable[1] is ErrorCode.UNSTABLE_OFFSET_COMMIT, (place, stable)
                assert plain[0] < offset, (place, plain, offset)
                found[f"pending again ({stable[1].name})"] += 1
            elif _was_committed(death, producer_id):
                assert stable == plain == (offset, ErrorCode.NONE), (place, stable, plain, offset)
                found["committed by the decision"] += 1
    for place, offset in death.alone.logs.committed.items():
        assert death.alone.plain[place] == (offset, ErrorCode.NONE), (place, offset)
    found["committed, as in its log"] = len(death.alone.logs.committed)
    found_codes = ", ".join(f"{count} offsets {what}" for what, count in found.items())
    yield f"after the restart, without clients: {found_codes}"
    yield from went_on(death)


def _was_committed(death: Death, producer_id: int) -> bool:
    decided = death.at_death.ends(TransactionState.PREPARE_COMMIT)
    return producer_id in {step.producer_id for step in decided.values()}


# --- all three


def went_on(death: Death) -> Iterator[str]:
    """Check that no worker has aborted its transaction or begun it anew."""
    ended: Counter[str] = Counter()
    for name, step in death.at_death.ends(OPEN).items():
        ended[_end_of(death, name, step)] += 1
    new_ids = death.asked(ApiKey.INIT_PRODUCER_ID)
    aborted = death.events.of("transaction aborted")
    assert not aborted, f"transactions were aborted: {aborted}"
    assert not new_ids, f"{new_ids} times a producer began anew"
    assert not death.begun_anew, f"{death.begun_anew} workers began anew"
    new = death.after.since(death.before)
    aborts = new.count(PREPARE_ABORT)
    assert aborts == death.aborted_on_purpose, (
        f"{aborts} transactions were aborted, {death.aborted_on_purpose} of them on purpose"
    )
    # A restarted coordinator writes all markers of decided transactions again, so a partition may
    # have a marker twice.
    for decided in (
        step for steps in new.steps.values() for step in steps if step.state in DECIDED
    ):
        for place in decided.places:
            assert new.markers[decided.producer_id, place], f"no marker of {decided} in {place}"
    ends = ", ".join(f"{count} ended with {what}" for what, count in ended.items())
    codes = Counter(code.name for code in death.ends().values())
    answers = ", ".join(f"{count} {name}" for name, count in codes.items())
    yield (
        f"with clients again: {ends or 'no transaction was open'}; responses to EndTxn: {answers}; "
        f"{new_ids} InitProducerId; {len(aborted)} transactions aborted by the coordinator, "
        f"{aborts} on purpose; all purchases billed after {death.seconds:.1f} s"
    )


def _end_of(death: Death, name: str, step: Step) -> str:
    """Return the end of a transaction that was open at the death. The producer id and the start
    time identify the transaction."""
    later = [
        reached
        for reached in death.after.steps[name][len(death.at_death.steps[name]) :]
        if (reached.producer_id, reached.started_ms) == (step.producer_id, step.started_ms)
    ]
    assert [transaction.state in DECIDED for transaction in later].count(True) == 1, (
        f"{step} continued as {later}"
    )
    return next(transaction.name for transaction in later if transaction.state in DECIDED)

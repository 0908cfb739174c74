"""A broker that kills itself at a named step of the transactions of the demo's workers. The module
records the broker's files, its state after the restart before any worker connects, and the behavior
of the workers after that."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from examples.purchases.billing import GROUP
from oncelog.testing.proxy import Direction, Frame
from oncelog.testing.proxy.frame import message
from oncelog.testing.wire import Wire
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from tests.deep_dive import asking
from tests.deep_dive.asking import Described, Events
from tests.deep_dive.on_disk import DECIDED, Logs, Place, read_logs
from tests.deep_dive.pipeline import Pipeline
from tests.deep_dive.produced import Names


@dataclass(frozen=True, slots=True)
class Alone:
    """The state of the restarted broker before any worker can connect. The broker has completed the
    decided transactions. `stable` and `plain`: the group's offsets with and without
    require_stable."""

    transactions: dict[str, Described]
    tails: dict[tuple[int, Place], tuple[int, int]]
    stable: dict[Place, tuple[int, ErrorCode]]
    plain: dict[Place, tuple[int, ErrorCode]]
    logs: Logs


@dataclass(frozen=True, slots=True)
class Death:
    """The death of a broker at `point`. `before`, `at_death` and `after`: the logs before this
    run's purchases are added, at the death, and when all purchases are billed. `earlier`: frames
    before the death. `frames` and `events`: those after the death. `seconds`: the time from the
    death until all purchases are billed. `begun_anew` and `aborted_on_purpose`: the numbers of
    transactions that the workers have begun anew and aborted on purpose, as their output says."""

    point: str
    before: Logs
    at_death: Logs
    alone: Alone
    after: Logs
    earlier: list[Frame]
    frames: list[Frame]
    events: Events
    names: Names
    begun_anew: int
    aborted_on_purpose: int
    seconds: float

    @property
    def written(self) -> Logs:
        """Return what was added to the logs from the start of this run until the death."""
        return self.at_death.since(self.before)

    def asked(self, api: ApiKey) -> int:
        """Return the number of requests of this API that the workers have sent since the death."""
        return sum(
            frame.direction is Direction.REQUEST
            and frame.api is api
            and frame.client_id.startswith(GROUP)
            for frame in self.frames
        )

    def ends(self) -> dict[Producer, ErrorCode]:
        """Return the error code of each producer's last EndTxn in this run, before or after the
        death."""
        return _ends([*self.earlier, *self.frames])


Producer = tuple[int, int]


def _ends(frames: Sequence[Frame]) -> dict[Producer, ErrorCode]:
    """Return the EndTxn results by producer id and epoch."""
    asked = _asked_to_end(frames)
    return {
        asked[frame.connection, frame.correlation_id]: ErrorCode(message(frame).error_code)
        for frame in frames
        if frame.api is ApiKey.END_TXN
        and frame.direction is Direction.RESPONSE
        and (frame.connection, frame.correlation_id) in asked
    }


def _asked_to_end(frames: Sequence[Frame]) -> dict[tuple[int, int], Producer]:
    """Return the producer of each EndTxn, by its connection and correlation id."""
    found: dict[tuple[int, int], Producer] = {}
    for frame in frames:
        if frame.api is ApiKey.END_TXN and frame.direction is Direction.REQUEST:
            asked = message(frame)
            producer = (asked.producer_id, asked.producer_epoch)
            found[frame.connection, frame.correlation_id] = producer
    return found


def die(
    pipeline: Pipeline,
    point: str,
    portion: int,
    meanwhile: Callable[[Pipeline], None] = lambda pipeline: None,
) -> Death:
    """Let the broker die at `point` in the workers' transactions, and start it again. Call
    `meanwhile` while it is dead."""
    before = read_logs(pipeline.broker.data, GROUP)
    began = len(pipeline.proxy.frames)
    again, aborted = pipeline.counted("again"), pipeline.counted("aborted")
    pipeline.die_at(point, portion)
    died = time.monotonic()
    since, events = len(pipeline.proxy.frames), Events(pipeline.broker)
    at_death = read_logs(pipeline.broker.data, GROUP)
    meanwhile(pipeline)
    pipeline.broker.start()
    with Wire(pipeline.broker.address) as wire:
        alone = _alone(pipeline, wire)
    pipeline.let_clients_in()
    pipeline.wait_until_billed()
    seconds = time.monotonic() - died
    _wait_for_ends(pipeline, began, since)
    return Death(
        point,
        before,
        at_death,
        alone,
        _at_rest(pipeline),
        list(pipeline.proxy.frames)[began:since],
        list(pipeline.proxy.frames)[since:],
        events,
        pipeline.names(),
        pipeline.counted("again") - again,
        pipeline.counted("aborted") - aborted,
        seconds,
    )


def _wait_for_ends(pipeline: Pipeline, began: int, died: int) -> None:
    """Wait until the producer of each EndTxn from before the death has a response, from the old or
    the new coordinator. If a producer begins anew (InitProducerId), do not wait, because it sends
    no more EndTxn. `began` and `died`: the numbers of frames at the start of the run and at the
    death."""
    asked = set(_asked_to_end(list(pipeline.proxy.frames)[began:died]).values())

    def answered() -> bool:
        frames = list(pipeline.proxy.frames)
        new_ids = any(frame.api is ApiKey.INIT_PRODUCER_ID for frame in frames[died:])
        return new_ids or asked <= _ends(frames[began:]).keys()

    pipeline.wait(answered, "a response to each EndTxn")


def _alone(pipeline: Pipeline, wire: Wire) -> Alone:
    decided = {state.kafka_name for state in DECIDED}

    def finished() -> bool:
        return not any(
            transaction.state in decided for transaction in asking.transactions(wire).values()
        )

    pipeline.wait(lambda: asking.loaded(wire), "the coordinators have loaded")
    pipeline.wait(finished, "the coordinator completes decided transactions")
    return Alone(
        asking.transactions(wire),
        asking.tails(wire),
        asking.offsets(wire, stable=True),
        asking.offsets(wire, stable=False),
        read_logs(pipeline.broker.data, GROUP),
    )


def _at_rest(pipeline: Pipeline) -> Logs:
    """Return the logs after the last COMPLETE. Purchases count as billed a moment before that."""
    found: list[Logs] = []

    def rests() -> bool:
        found.append(read_logs(pipeline.broker.data, GROUP))
        return not found[-1].ends(*DECIDED)

    pipeline.wait(rests, "the last transaction is complete")
    return found[-1]

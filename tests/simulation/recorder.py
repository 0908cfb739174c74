"""Records the operations of clients, including clients that die during an operation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.simulation.checking.history import (
    Assigned,
    GroupKey,
    History,
    Key,
    MicroOperation,
    Operation,
    Outcome,
    Poll,
    Send,
    Value,
)
from tests.simulation.loop import SimLoop
from tests.simulation.process import Process


class Attempt:
    """One operation in progress. `in_doubt` is True as soon as an effect is possible: the record or
    the commit was sent."""

    def __init__(self, recorder: Recorder, process: Process, *, is_transaction: bool) -> None:
        self._recorder = recorder
        self._process = process
        self._is_transaction = is_transaction
        self._invoked = recorder.now_us
        self._ended = False
        self.outcome: Outcome | None = None
        self.steps: list[MicroOperation] = []
        self.offsets: dict[int, int] = {}
        self.group_offsets: dict[GroupKey, int] = {}
        self.rebalanced: frozenset[Key] = frozenset()
        self.in_doubt = False
        self.rewound = True
        process.on_death.append(self.abandon)

    def send(self, key: Key, value: Value) -> int:
        """Record a send. Return the index of the step for `acked`."""
        self.steps.append(Send(key, value))
        return len(self.steps) - 1

    def acked(self, step: int, offset: int) -> None:
        sent = self.steps[step]
        assert isinstance(sent, Send)
        self.steps[step] = Send(sent.key, sent.value, offset if offset >= 0 else None)

    def poll(self, records: Mapping[Key, Iterable[tuple[int, Value]]]) -> None:
        self.steps.append(Poll({key: tuple(found) for key, found in records.items()}))

    def end(self, outcome: Outcome) -> None:
        if self._ended:
            return
        self._ended = True
        self.outcome = outcome
        if self.abandon in self._process.on_death:
            self._process.on_death.remove(self.abandon)
        self._recorder.add(
            Operation(
                self._process.index,
                outcome,
                tuple(self.steps),
                self._invoked,
                self._recorder.now_us,
                self._is_transaction,
                dict(self.group_offsets),
                self.rebalanced,
                self.rewound,
            )
        )

    def failed(self) -> None:
        """End a failed operation. Its outcome is FAIL, or INFO if `in_doubt`."""
        self.end(Outcome.INFO if self.in_doubt else Outcome.FAIL)

    def outlive(self) -> None:
        """Keep the operation open after the death of its process. Its outcome is decided later."""
        self._process.on_death.remove(self.abandon)

    def abandon(self) -> None:
        """End the operation of a dead process."""
        self.failed()


class Recorder:
    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.history = History()
        self._last_value = 0
        self.committed = 0
        self.aborted = 0
        self.unknown = 0

    @property
    def now_us(self) -> int:
        return self._loop.now_us

    def next_value(self) -> Value:
        self._last_value += 1
        return self._last_value

    def begin(self, process: Process, *, is_transaction: bool = False) -> Attempt:
        return Attempt(self, process, is_transaction=is_transaction)

    def assigned(self, process: Process, keys: Iterable[Key], **how: bool) -> None:
        self.history.add(Assigned(process.index, frozenset(keys), **how))

    def add(self, operation: Operation) -> None:
        self.history.add(operation)
        if operation.is_transaction:
            match operation.outcome:
                case Outcome.OK:
                    self.committed += 1
                case Outcome.FAIL:
                    self.aborted += 1
                case Outcome.INFO:
                    self.unknown += 1

    @property
    def transactions(self) -> int:
        return self.committed + self.aborted + self.unknown

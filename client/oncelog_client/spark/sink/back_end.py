"""The one interface of the two ways to commit: `group_commit` (oncelog) and `record_commit` (any
broker that speaks Kafka's protocol).

The order of things is decided by `planning`, `committing` and `aborting`, and is the same for both.
A back-end performs one command at a time and says what came of it; it keeps no state of a sink
between two commands, as they may be performed by different processes.

What happens in a task is the same for both (`task_writer`), but for how a transaction is begun:
every attempt takes an id that no other attempt of its batch can have (`ids`), initialises it
itself, writes, and leaves the transaction open. There are no slots: PySpark does not tell a task
the attempt of its stage, so an id that the driver gives to a partition could come to two attempts.
"""

from __future__ import annotations

from typing import Protocol

from oncelog_client.producer import Producer

from .messages import Plan
from .steps import Answer, Command


class BackEnd(Protocol):
    """One sink's, made in every process that has to do with it, for one call of Spark. Called on
    the background loop."""

    async def perform(self, command: Command) -> Answer:
        """Carry out a command of the driver. Which answers a command may have is in the machines'
        tables. Raises SinkError where the broker refuses for another reason (rights, options), and
        RetriableError when time is up with nothing decided.

        Look: `Stored.open_ids` has every transaction of the sink that is open at the coordinator,
        whoever began it. It may be looked for at once with the reading of the state.
        Fence: initialises the parent, `sinkId` itself, whose (id, epoch) then stays through the
        generation; waits until what the parent had open has been aborted or committed.
        AbortOpen: comes before the decision of its batch, so a committer that pauses and wakes up
        is of an older generation if anything has been decided since. Must not end that.
        """
        ...

    async def begin(self, producer: Producer, plan: Plan) -> None:
        """On an executor: give the producer's transactional id a new epoch, which aborts what it
        had open, and begin a transaction. Raises FencedInGroupError or ProducerFencedError where a
        newer driver has come. What follows is `Producer.hand_over_transaction`."""
        ...

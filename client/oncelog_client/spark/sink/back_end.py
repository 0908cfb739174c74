"""The one interface of the two ways to commit: `group_commit` (oncelog) and `record_commit` (any
broker that speaks Kafka's protocol).

`planning`, `committing` and `aborting` decide the order of commands, the same for both. A back-end
performs one command at a time and returns its answer. It keeps no state of a sink between two
commands, because different processes may perform them.

A task does the same for both (`task_writer`), except for the begin of a transaction: every attempt
takes an id that no other attempt of its batch can have (`ids`), initializes it, writes, and leaves
the transaction open. The driver does not give ids to partitions: PySpark does not tell a task the
attempt of its stage, so two attempts could get the same id.
"""

from __future__ import annotations

from typing import Protocol

from oncelog_client.producer import Producer

from .messages import Plan
from .steps import Answer, Command


class BackEnd(Protocol):
    """The back-end of one sink, made in each process for one call of Spark. Call it on the
    background loop."""

    async def perform(self, command: Command) -> Answer:
        """Carry out a command of the driver. The machines' tables say which answers a command may
        have. Raise SinkError if the broker refuses for another reason (rights, options), and
        RetriableError if time is up and nothing was decided.

        Look: `Stored.open_ids` has every transaction of the sink that is open at the coordinator,
        of any generation. The state and the ids may be read at the same time.
        FenceParent: initializes the parent, `sinkId` itself, whose (id, epoch) stays through the
        generation; waits until what the parent had open is aborted or committed.
        AbortOpen: comes before the decision of its batch. If a committer pauses and a newer
        generation has decided meanwhile, the committer must not end what that has decided.
        """
        ...

    async def begin(self, producer: Producer, plan: Plan) -> None:
        """On an executor: bump the epoch of the producer's transactional id, which aborts what it
        had open, and begin a transaction. Raise FencedInGroupError or ProducerFencedError if a
        newer driver has taken over. `Producer.hand_over_transaction` comes next."""
        ...

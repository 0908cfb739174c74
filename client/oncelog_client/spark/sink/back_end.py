"""The interface that both ways to commit implement: `group_commit` (oncelog) and `record_commit`
(any broker that speaks Kafka's protocol).

`planning`, `committing` and `aborting` decide the order of commands. The order is the same for both
ways. A back-end performs one command at a time and returns its result. A back-end keeps no state of
a sink between two commands, because different processes may perform the commands. Tasks work in the
same way with both (`task_writer`), except for the start of a transaction. Every attempt takes an id
that no other attempt of its batch can have (`ids`), initializes the id, writes, and leaves the
transaction open. The driver cannot assign ids to partitions: a task of PySpark does not know the
number of its stage's attempt, so tasks of two stage attempts could get the same id.
"""

from __future__ import annotations

from typing import Protocol

from oncelog_client.errors import KafkaError
from oncelog_client.producer import Producer
from oncelog_client.spark.sink.protocol.messages import Plan
from oncelog_client.spark.sink.protocol.steps import Command, Result


class BackEnd(Protocol):
    """The back-end of one sink, made in each process for one call of Spark. Methods run on the
    background loop."""

    async def perform(self, command: Command) -> Result:
        """Carry out a command of the driver. The tables of the state machines list the results of
        each command. Raises SinkError if the broker refuses for a reason that is not among these
        results (rights, options), and RetriableError if time is up and nothing was decided.

        Look: `Stored.open_ids` lists the sink's open transactions at the coordinator, in all
        generations. The state and the ids may be read at the same time. FenceParent: sends
        InitProducerId for the parent, the driver's own producer with the transactional id `sinkId`.
        The parent keeps its new producer id and epoch until the next FenceParent. The command
        returns after the parent's open transaction is aborted or committed. AbortOpen: is sent only
        before the decision of its batch. A newer generation may decide while the sender is paused.
        Even then AbortOpen must not end a decided transaction.
        """
        ...

    async def begin(self, producer: Producer, plan: Plan) -> None:
        """Begin a transaction on an executor. The call first bumps the epoch of the producer's
        transactional id, which aborts the id's open transaction. After the last row, the task calls
        `Producer.hand_over_transaction`. Raises FencedInGroupError or ProducerFencedError if a
        newer driver has taken over."""
        ...

    def explain(self, error: KafkaError, topic: str = "") -> None:
        """Add to the error of a missing right the rights that the sink needs. `topic`: the topic
        that the sink writes to; empty if each row names its topic."""
        ...

"""The worlds (models of a broker and two producers) at the start of an exploration. In some of them
the producers have already taken their first steps, because no order of these steps can violate an
invariant."""

from __future__ import annotations

from tests.exploration.clients import ClientModel, Init, Produce, Request
from tests.exploration.partition_model import Ghost
from tests.exploration.steps import Step, take
from tests.exploration.world_model import Budget, WorldModel

# The faults in worlds before KIP-890. No frame is delayed, because a delayed EndTxn would end the
# next transaction. Kafka has this defect (KAFKA-17754, scenario R7v1). The broker drops an EndTxn
# of a closed connection, but the model has no connections.
BEFORE_890 = Budget(holds=0)


def world(
    version: int, *, same_id: bool, start: str = "fresh", budget: Budget | None = None
) -> WorldModel:
    """Return a world. `start` is one of these. "fresh": no step is taken. "ready": each
    transactional id has a producer id and epoch. "open": like "ready", and the first producer has a
    record in both partitions."""
    clients = (ClientModel("t", version), ClientModel("t" if same_id else "u", version))
    made = WorldModel(clients, budget or Budget())
    if start == "fresh":
        return made
    _call(made, 0, Init())
    if not same_id:
        _call(made, 1, Init())
    if start == "open":
        for partition in (0, 1):
            for request in made.clients[0].choices(0, 1):
                if getattr(request, "partition", None) == partition:
                    _call(made, 0, request)
            if version == 1:
                producer = made.clients[0].producer
                assert producer is not None
                _call(made, 0, Produce(producer, partition, 0, Ghost(0, 0)))
    return made


def _call(world: WorldModel, client: int, request: Request) -> None:
    take(world, Step("call", client, request))
    while world.coordinator.waiting:
        take(world, Step("commit"))
    assert world.clients[client].outstanding is None

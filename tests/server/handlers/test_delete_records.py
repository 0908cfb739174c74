"""DeleteRecords responds once the new log start offset is on disk."""

from __future__ import annotations

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from oncelog_server.deferred import Deferred, Order
from oncelog_server.handlers import delete_records
from oncelog_server.slices import Slices
from oncelog_server.storage.files import StorageError
from tests.server.handlers.nodes import broker, context
from tests.server.manual_timers import ManualTimers
from tests.server.test_background_duties import write
from tests.server.transaction.world import A0, A1, B0, World
from tests.server.transaction.world_clock import WorldClock


async def test_other_requests_are_served_between_two_partitions() -> None:
    """Each turn of the loop has one step here, and a step deletes in one partition."""
    world = World()
    names = (A0, A1, B0)
    for name in names:
        write(world, name, 5)
    starts: list[int] = []
    timers = ManualTimers()
    async with broker() as services:
        for name in names:
            services.partitions.add(world.partitions[name])
        services.clock = WorldClock(world)
        services.checkpoint = Deferred
        services.slices = Slices(timers, lambda: 0, steps_per_slice=1)
        rows = [
            DeleteRecordsTopic(name.topic, [DeleteRecordsPartition(name.partition, 3)])
            for name in names
        ]
        asked = context(services, delete_records.API, 2)
        response = delete_records.handle(services, asked, DeleteRecordsRequest(rows))
        while timers.soon:
            starts.append(sum(world.partitions[name].log_start_offset == 3 for name in names))
            timers.soon.pop(0)()
    assert isinstance(response, Deferred)
    assert starts[0] < len(names)
    assert starts == sorted(starts)
    assert all(world.partitions[name].log_start_offset == 3 for name in names)


async def test_the_response_waits_for_the_checkpoint_unless_nothing_was_deleted() -> None:
    world = World()
    write(world, A0, 5)
    checkpoints: list[Deferred[StorageError | None]] = []

    def checkpoint() -> Deferred[StorageError | None]:
        checkpoints.append(Deferred(order=Order.ORDERED))
        return checkpoints[-1]

    async with broker() as services:
        services.partitions.add(world.partitions[A0])
        services.clock = WorldClock(world)
        services.checkpoint = checkpoint

        def ask(
            offset: int,
        ) -> DeleteRecordsResponse | Deferred[DeleteRecordsResponse]:
            partition = DeleteRecordsPartition(A0.partition, offset)
            topics = [DeleteRecordsTopic(A0.topic, [partition])]
            asked = context(services, delete_records.API, 2)
            return delete_records.handle(services, asked, DeleteRecordsRequest(topics))

        refused = ask(99)
        assert isinstance(refused, DeleteRecordsResponse)
        assert refused.topics[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert checkpoints == []
        response = ask(3)
        assert isinstance(response, Deferred)
        assert response.order is Order.ORDERED, "the next requests need not wait"
        assert not response.done
        checkpoints[0].complete(None)
        result = response.value.topics[0].partitions[0]
        assert (result.low_watermark, result.error_code) == (3, ErrorCode.NONE)

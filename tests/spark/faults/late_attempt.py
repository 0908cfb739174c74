"""A superfluous task attempt that still opens a transaction. Its host was cut off, and its batch
was committed in the meantime."""

from __future__ import annotations

import asyncio

from oncelog_client import Admin, Producer
from oncelog_client.spark.sink.protocol.state import SINK_PARTITION, decode
from tests.spark.pipeline import Pipeline
from tests.spark.topics import TIMEOUT_MS


def write_late(pipeline: Pipeline) -> None:
    """On oncelog, write in the generation of the sink's last batch, and leave the transaction
    open."""

    async def write() -> None:
        sink = pipeline.name
        async with Admin(pipeline.bootstrap) as admin:
            offsets = await admin.list_group_offsets(sink, [SINK_PARTITION])
        generation = decode(offsets[SINK_PARTITION], sink).generation
        attempt = f"{sink}/{generation}/cut-off.0"
        async with Producer(
            pipeline.bootstrap, transactional_id=attempt, transaction_timeout_ms=TIMEOUT_MS
        ) as producer:
            await producer.init_transactions((), sink, generation)
            await producer.begin_transaction()
            await producer.send(pipeline.invoices, b"late", b"late", partition=0)
            assert await producer.hand_over_transaction() is not None

    asyncio.run(write())

"""The job of docker/compose.yaml. It loads the purchases once and bills them.

python -m examples.purchases.job BOOTSTRAP_SERVERS
"""

from __future__ import annotations

import asyncio
import signal
import sys

from examples.purchases.billing import INVOICES, PARTITIONS, PURCHASES, SHIPMENTS
from examples.purchases.data import purchases
from examples.purchases.worker import work
from oncelog_client import Admin, KafkaError, NewTopic, OffsetAndMetadata, Producer, TopicPartition

LOADING = "loading"


async def load_once(servers: str) -> None:
    """Write all purchases in one transaction. The transaction also commits an offset of the group
    `LOADING`, as a mark that the purchases are loaded. A job that is killed before the commit loads
    them again at its next start. A start after the commit finds the offset and loads nothing."""
    async with Admin(servers) as admin:
        existing = await admin.list_topics()
        wanted = (PURCHASES, INVOICES, SHIPMENTS)
        missing = [NewTopic(name, PARTITIONS, 1) for name in wanted if name not in existing]
        if missing:
            await admin.create_topics(missing)
        async with Producer(servers, transactional_id=LOADING, linger_ms=20) as producer:
            await producer.init_transactions()
            if await admin.list_group_offsets(LOADING):
                return
            async with producer.transaction():
                for purchase in purchases():
                    await producer.send(
                        PURCHASES, key=purchase.customer.encode(), value=purchase.encode()
                    )
                loaded = {TopicPartition(PURCHASES, 0): OffsetAndMetadata(0)}
                await producer.send_offsets_to_transaction(loaded, LOADING)
    print("loaded", flush=True)


async def main(servers: str) -> None:
    """Run the job. Wait for a broker that is not up yet, and continue after an outage of the
    broker."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    while not stopping.is_set():
        try:
            await load_once(servers)
            await work(servers, 0, stopping)
        except KafkaError as error:
            print(f"again {type(error).__name__}: {error}", flush=True)
            await asyncio.sleep(0.5)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

"""The purchases pipeline as processes: a broker, a proxy before it, workers, and the audit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

from examples.purchases.audit import Audit, audit
from examples.purchases.billing import GROUP, INVOICES, PARTITIONS, PURCHASES, SHIPMENTS
from examples.purchases.data import Purchase, purchases
from examples.purchases.processes import Worker
from oncelog.testing.ports import reserve_port
from oncelog.testing.proxy import Direction, Drop, Fate, Frame, Proxy
from oncelog.testing.proxy.frame import message
from oncelog.testing.wire import Wire
from oncelog_client import Admin, KafkaError, NewTopic, Producer
from oncelog_protocol.apis import ApiKey
from tests.harness.broker import Oncelog
from tests.harness.dying import last_death
from tests.harness.writing import topic_id

WORKER = "examples.purchases.worker"
DEADLINE_S = 60.0
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.state.log.num.partitions": "5",
    "offsets.topic.num.partitions": "5",
}

# The APIs that begin a transaction: an older client first adds partitions or offsets at the
# coordinator, a newer client begins with the write.
WRITES = (
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.PRODUCE,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
)


class Pipeline:
    """The pipeline gets purchases in portions. `fed`: the purchases that the workers must bill."""

    def __init__(self, directory: Path, worker_count: int = 2, module: str = WORKER) -> None:
        self.proxy = Proxy()
        self.proxy.always(self._lost)
        self._is_writing = True
        self._unused = f"127.0.0.1:{reserve_port(self)}"
        advertised = {"advertised.listeners": f"PLAINTEXT://{self.proxy.address}"}
        self.broker = Oncelog(directory, SETTINGS | advertised)
        self._module = module
        self.workers = [self.worker(number) for number in range(worker_count)]
        self.fed: list[Purchase] = []
        self._source = purchases()

    def worker(self, number: int) -> Worker:
        """Return a worker. It is not started yet."""
        return Worker(self._module, self.proxy.address, number)

    # --- work

    def feed(self, count: int) -> None:
        """Feed the next `count` purchases of the data set."""
        portion = list(islice(self._source, count))
        assert len(portion) == count, "the data set is used up"
        asyncio.run(_feed(self.proxy.address, portion))
        self.fed += portion

    def wait_until_billed(self) -> None:
        """Wait until the group has committed all fed purchases."""
        self.wait(lambda: self.billed() == len(self.fed), "all purchases are billed")

    def billed(self) -> int:
        """Return the number of purchases that the group has committed, or -1 while the broker is
        down."""
        return asyncio.run(_billed(self.proxy.address))

    def audit(self) -> Audit:
        """Compare the invoices and shipments with the fed purchases."""
        return asyncio.run(audit(self.proxy.address, self.fed))

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition. Raises TimeoutError."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {DEADLINE_S:.0f} s: {what}")
            time.sleep(0.05)

    # --- frames in the proxy

    def said(
        self, direction: Direction, api: ApiKey, client_id: str, since: int = 0
    ) -> list[tuple[Frame, Any]]:
        """Return the requests or responses of one API and client that the proxy has seen since
        frame `since`."""
        found: Sequence[Frame] = list(self.proxy.frames)[since:]
        wanted = (direction, api, client_id)
        return [
            (frame, message(frame))
            for frame in found
            if (frame.direction, frame.api, frame.client_id) == wanted
        ]

    def names(self) -> dict[bytes, str]:
        """Return the topics' names by their ids."""
        with Wire(self.broker.address) as wire:
            return {topic_id(wire, topic): topic for topic in (PURCHASES, INVOICES, SHIPMENTS)}

    # --- the broker

    def die_at(self, point: str, portion: int) -> None:
        """Let the broker die at this fail point while the workers bill the next `portion`
        purchases. The workers begin to write after all these purchases are fed. After the death,
        clients reach no broker until `let_clients_in`."""
        self._is_writing = False
        self.feed(portion)
        self.broker.stop()
        self._is_writing = True
        self.broker.fail_at(point)
        self.start_broker()
        assert self.broker.wait_for_death(DEADLINE_S) == -9
        assert last_death(self.broker).startswith(point)
        self.broker.fail_at(None)
        self.proxy.target = self._unused

    def let_clients_in(self) -> None:
        self.proxy.target = self.broker.address

    def _lost(self, frame: Frame) -> Fate | None:
        """Return `Drop` for a write of a worker while the workers must not write, else None."""
        is_write = frame.direction is Direction.REQUEST and frame.api in WRITES
        if is_write and frame.client_id.startswith(GROUP) and not self._is_writing:
            return Drop(cut=False)
        return None

    def counted(self, word: str) -> int:
        """Return the number of lines in the workers' output that begin with `word`."""
        return sum(worker.counts[word] for worker in self.workers)

    def start_broker(self) -> None:
        self.broker.start()
        self.let_clients_in()

    def __enter__(self) -> Pipeline:
        self.proxy.__enter__()
        self.start_broker()
        asyncio.run(_create_topics(self.proxy.address))
        for worker in self.workers:
            worker.start()
        self.wait(self._all_work, "all workers have purchases to bill")
        return self

    def _all_work(self) -> bool:
        self.feed(20)
        self.wait_until_billed()
        return all(worker.counts["committed"] for worker in self.workers)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for worker in self.workers:
            worker.stop()
        self.broker.kill()
        self.proxy.__exit__(kind, error, traceback)


async def _create_topics(address: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topics(
            [NewTopic(name, PARTITIONS, 1) for name in (PURCHASES, INVOICES, SHIPMENTS)]
        )


async def _feed(address: str, portion: list[Purchase]) -> None:
    async with Producer(address, client_id="feeder") as producer:
        sent = [
            await producer.send(PURCHASES, key=purchase.customer.encode(), value=purchase.encode())
            for purchase in portion
        ]
        await asyncio.gather(*sent)


async def _billed(address: str) -> int:
    try:
        async with Admin(address, request_timeout_ms=2_000) as admin:
            offsets = await admin.list_group_offsets(GROUP)
    except KafkaError:
        return -1
    return sum(offset.offset for offset in offsets.values() if offset is not None)

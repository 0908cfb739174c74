"""The path of EndTxn through the broker: the number of files that it enters."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final, ParamSpec

import oncelog_server
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.end_txn import EndTxnRequest
from oncelog_server.broker import Broker
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.handlers import end_txn
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.states import State
from tests.server.handlers.nodes import DEADLINE_S, context
from tests.server.hosting.test_replica_manager import life
from tests.server.transaction.world import transactional_batch, value_of

P = ParamSpec("P")

ID: Final = "t"
DATA: Final = TopicPartition("topic", 0)
MOST_FILES: Final = 20
_SERVER: Final = str(Path(oncelog_server.__file__).parent)


def files_entered(call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> set[str]:
    """Return the server's files in which `call` enters a function."""
    entered: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            entered.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call(*args, **kwargs)
    finally:
        sys.setprofile(before)
    return {name.removeprefix(_SERVER) for name in entered if name.startswith(_SERVER)}


async def loaded(broker: Broker) -> None:
    """Wait until the id's coordinator has loaded."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                broker.transactions.owner(ID)
            except Refused:
                await asyncio.sleep(0)
            else:
                return


def begun(broker: Broker) -> tuple[int, int]:
    """Return a producer with a record in its transaction."""
    result = value_of(broker.transactions.init_producer_id(InitProducerId(ID, 60_000)))
    producer = result.producer_id, result.producer_epoch
    added = AddPartitions(ID, *producer, frozenset({DATA}), 2)
    assert value_of(broker.transactions.add_partitions(added)).code is ErrorCode.NONE
    partition = broker.partitions.require(*DATA)
    partition.append(transactional_batch(producer, 0, b"v", 1), now_ms=1)
    return producer


async def test_endtxn_enters_few_files_from_the_handler_to_complete(
    tmp_path: Path,
) -> None:
    async with life(tmp_path) as broker:
        for topic in (TRANSACTION_STATE, DATA.topic):
            await broker.metadata.missing_topics.create_one(topic)
        await loaded(broker)
        # Work that is done only once is not on the path, so the test runs another transaction
        # first.
        for _ in range(2):
            producer = begun(broker)
            request = EndTxnRequest(ID, *producer, committed=True)
            session = context(broker.services, ApiKey.END_TXN, 5)
            entered = files_entered(end_txn.handle, broker.services, session, request)
            assert broker.transactions.find(ID).metadata.state is State.COMPLETE_COMMIT
        assert "/handlers/end_txn.py" in entered
        assert "/operating_system/os_files.py" in entered
        assert len(entered) <= MOST_FILES, sorted(entered)

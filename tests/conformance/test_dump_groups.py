"""The transaction log of oncelog has record types that Kafka does not have. Kafka's dump tool
reports such records as unknown and skips them. It reads all other records."""

from __future__ import annotations

import asyncio
from pathlib import Path

from oncelog.testing.broker import QUICK
from oncelog_client import Admin, NewTopic, Producer, TopicPartition, TransactionGroup
from tests.conformance.test_dump import dump
from tests.harness.broker import Oncelog
from tests.harness.kafka.driver import JavaDriver

GROUP = "dumped-group"


async def write(address: str) -> None:
    """Commit the transactions of two members of a group together. Then one of them leaves the
    group, and a producer without a group starts."""
    group = TransactionGroup(GROUP, 3, frozenset({TopicPartition("in", 0)}))
    async with Admin(address) as admin:
        await admin.create_topics([NewTopic("out", 1, 1)])
        parent = await admin.init_producer("parent", group)
        async with Producer(address, transactional_id="member") as producer:
            await producer.init_transactions([], GROUP, 3)
            await producer.begin_transaction()
            await producer.send("out", b"v")
            member = await producer.hand_over_transaction()
        assert member is not None
        async with Producer(address, transactional_id="parent") as producer:
            await producer.adopt_transactions(parent, group)
            await producer.begin_transaction()
            await producer.send("out", b"v")
            await producer.hand_over_transaction()
        await admin.commit_group(GROUP, parent, [member])
    for transactional_id in ("member", "plain"):
        async with Producer(address, transactional_id=transactional_id) as producer:
            await producer.init_transactions()


def test_kafkas_dump_tool_skips_the_records_of_transaction_groups(
    tmp_path: Path, java_driver: JavaDriver
) -> None:
    with Oncelog(tmp_path, QUICK | {"transaction.state.log.num.partitions": "1"}) as broker:
        asyncio.run(write(broker.address))
        log = broker.data / "__transaction_state-0" / "00000000000000000000.log"
        printed = dump(java_driver, log, options=("--transaction-log-decoder",))
    # The records of the two members, and the tombstone of the member that left.
    assert printed.count("Unknown record type 10000") == 3
    assert printed.count("skipping") == 3
    for transactional_id in ("parent", "member", "plain"):
        assert f'"transactionalId":"{transactional_id}"' in printed
    # One record batch decides both transactions. Each of its records has a tagged field that Kafka
    # does not know.
    assert printed.count('"transactionStatus":2') == 2
    assert printed.count('"transactionStatus":4') == 2

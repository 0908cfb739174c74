"""The watcher (a reader that records which committed rows are visible at each moment) sees rows at
the right moment, also across restarts of the broker."""

from __future__ import annotations

import asyncio

from oncelog_client import Producer
from tests.harness.broker import Oncelog
from tests.spark.audit import Sighting
from tests.spark.topics import Topics
from tests.spark.watcher import Watcher


def seen(snapshots: list[list[Sighting]]) -> list[list[str]]:
    return [[row.purchase for row in rows] for rows in snapshots]


def test_a_transaction_becomes_visible_at_one_moment(broker: Oncelog, name: str) -> None:
    topics = Topics(broker.address)
    names = [f"{name}-a", f"{name}-b"]
    topics.create_all(names, 2)

    async def write() -> None:
        async with Producer(broker.address, transactional_id=name) as producer:
            await producer.init_transactions()
            for commits in (True, False, True):
                await producer.begin_transaction()
                for topic in names:
                    for partition in (0, 1):
                        await producer.send(topic, key=b"%d" % commits, partition=partition)
                await producer.flush()
                if commits:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()

    with Watcher(broker.address, names) as watcher:
        asyncio.run(write())
        snapshots = seen(watcher.caught_up())
    assert [rows for rows in snapshots if rows] in ([["1"] * 4] * 2, [["1"] * 8])


def test_rows_committed_before_a_kill_are_seen_after_the_restart(
    fresh_broker: Oncelog, name: str
) -> None:
    topics = Topics(fresh_broker.address)
    topics.create(name)
    with Watcher(fresh_broker.address, [name]) as watcher:
        topics.append_transaction(name, [b"x", b"y"])
        fresh_broker.kill()
        fresh_broker.start()
        topics.append_transaction(name, [b"z"])
        assert len([row for rows in watcher.caught_up() for row in rows]) == 3

"""A process that writes each row to both a database and a topic, or to neither: the recipe of
KIP-939. `test_two_phase` starts and kills the process. Arguments: bootstrap, database, rows."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from contextlib import suppress

from oncelog_client import KafkaError, PreparedTxnState, Producer


def opened(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=60, isolation_level=None)
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, state TEXT)")
    return database


def last(database: sqlite3.Connection) -> tuple[int, PreparedTxnState]:
    """Return the number of the last row, and the prepared state of its transaction. The row is the
    decision to commit this transaction. Without a row, return -1 and an empty state."""
    found = database.execute("SELECT number, state FROM rows ORDER BY number DESC LIMIT 1")
    row = found.fetchone()
    return (-1, PreparedTxnState()) if row is None else (row[0], PreparedTxnState.parse(row[1]))


async def write(bootstrap: str, path: str, rows: int) -> None:
    database = opened(path)
    async with Producer(
        bootstrap, transactional_id="dual", transaction_two_phase_commit_enable=True
    ) as producer:
        await producer.init_transactions(keep_prepared_txn=True)
        number, decided = last(database)
        await producer.complete_transaction(decided)
        while (number := number + 1) < rows:
            await producer.begin_transaction()
            await producer.send("t", b"%d" % number, partition=0)
            state = await producer.prepare_transaction()
            if number % 7 == 3:
                await producer.abort_transaction()
                continue
            # This commit of the database is the decision.
            database.execute("INSERT INTO rows VALUES (?, ?)", (number, str(state)))
            await producer.complete_transaction(state)


async def until_written(bootstrap: str, path: str, rows: int) -> None:
    """Write all rows. After an error, for example because the broker was killed, start again as a
    new process would."""
    while True:
        with suppress(KafkaError):
            return await write(bootstrap, path, rows)


if __name__ == "__main__":
    asyncio.run(until_written(sys.argv[1], sys.argv[2], int(sys.argv[3])))

"""Quix Streams: count the records of each key exactly once, in RocksDB.

Arguments: the address of a broker and the folder of the state.
"""

from __future__ import annotations

import sys

from quixstreams import Application, State


def main(address: str, folder: str) -> None:
    application = Application(
        broker_address=address,
        consumer_group="quix-count",
        auto_offset_reset="earliest",
        commit_interval=0.2,
        state_dir=folder,
        processing_guarantee="exactly-once",
        consumer_extra_config={"session.timeout.ms": 3000, "heartbeat.interval.ms": 500},
        # Quix Streams draws a new transactional id at each start, so nothing fences the former
        # one. The broker aborts the transaction of a killed application after this time.
        producer_extra_config={"transaction.timeout.ms": 5000},
        consumer_poll_timeout=0.1,
    )
    lines = application.topic("lines", key_deserializer="str", value_deserializer="str")
    counts = application.topic("counts", key_serializer="str", value_serializer="str")
    application.dataframe(lines).apply(count, stateful=True).to_topic(counts)
    application.run()


def count(value: str, state: State) -> str:
    number: int = state.get("count", 0) + 1
    state.set("count", number)
    return str(number)


if __name__ == "__main__":
    main(*sys.argv[1:])

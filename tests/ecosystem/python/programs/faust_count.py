"""Faust: count the records of each key exactly once, in a table with a changelog.

Arguments: the address of a broker and the folder of the state.
"""

from __future__ import annotations

import sys

import faust


def main(address: str, folder: str) -> None:
    application = faust.App(
        "faust-count",
        broker=f"kafka://{address}",
        processing_guarantee="exactly_once",
        store="memory://",
        datadir=folder,
        topic_partitions=2,
        topic_replication_factor=1,
        broker_session_timeout=3.0,
        broker_heartbeat_interval=0.5,
        broker_commit_interval=0.2,
        web_enabled=False,
        consumer_auto_offset_reset="earliest",
    )
    lines, counts = (
        application.topic(
            name, key_type=str, value_type=str, key_serializer="raw", value_serializer="raw"
        )
        for name in ("lines", "counts")
    )
    table = application.Table("count", default=int, partitions=2)

    @application.agent(lines)
    async def count(stream: faust.Stream) -> None:
        async for key, _ in stream.items():
            table[key] += 1
            await counts.send(key=key, value=str(table[key]))

    sys.argv[1:] = ["worker", "-l", "info", "--without-web"]
    application.main()


if __name__ == "__main__":
    main(*sys.argv[1:])

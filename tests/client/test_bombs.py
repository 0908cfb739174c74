"""A consumer refuses a batch that decompresses beyond its limit, in bounded memory."""

from __future__ import annotations

import struct
import tracemalloc

import cramjam
import pytest

from oncelog_client import Consumer, RecordTooLargeError, TopicPartition
from oncelog_protocol.checksum import crc32c
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.compression import Compression, compress
from oncelog_protocol.records.record import NewRecord
from tests.client.scripted_broker import TOPIC, ScriptedBroker, simulated

SERVER = "broker:9092"
PLACE = TopicPartition(TOPIC, 0)
MIB = 1 << 20
CODECS = [codec for codec in Compression if codec is not Compression.NONE]


def _bomb(codec: Compression, size_mib: int) -> bytes:
    """Return a batch at offset 0 that claims to have one record and decompresses to `size_mib`
    MiB."""
    if codec is Compression.SNAPPY:
        body = compress(codec, bytes(size_mib * MIB))
    else:
        module = {
            Compression.GZIP: cramjam.gzip,
            Compression.LZ4: cramjam.lz4,
            Compression.ZSTD: cramjam.zstd,
        }[codec]
        compressor = module.Compressor()
        for _ in range(size_mib):
            compressor.compress(bytes(MIB))
        body = bytes(memoryview(compressor.finish()))
    tail = struct.pack(">hiqqqhii", codec, 0, 0, 0, -1, -1, -1, 1) + body
    return struct.pack(">qiibI", 0, 9 + len(tail), -1, 2, crc32c(tail)) + tail


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_the_error_for_a_bomb_says_where_it_is_and_what_to_do(codec: Compression) -> None:
    """A former defect: 30 KB of zstd took 986 MB in the reader."""
    broker = ScriptedBroker(records=_bomb(codec, 64))

    async def scenario() -> None:
        consumer = Consumer(SERVER, fetch_max_bytes=MIB, fetch_max_decompressed_factor=1)
        await consumer.start()
        await consumer.assign([PLACE])
        consumer.seek(PLACE, 0)
        tracemalloc.start()
        try:
            with pytest.raises(RecordTooLargeError) as caught:
                await consumer.poll(5_000)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        limit = consumer.config.max_batch_bytes
        for text in (str(PLACE), "offset 0", str(limit), "fetch_max_decompressed_factor"):
            assert text in str(caught.value)
        assert peak < limit + 8 * MIB
        await consumer.close()

    simulated(broker, scenario)


def test_the_default_limit_of_a_decompressed_batch_is_200_mib() -> None:
    async def scenario() -> int:
        return Consumer(SERVER).config.max_batch_bytes

    assert simulated(ScriptedBroker(), scenario) == 4 * 52_428_800


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_a_batch_within_the_limit_is_read_however_small_the_fetches_are(
    codec: Compression,
) -> None:
    records = [NewRecord(0, None, bytes(100_000)) for _ in range(20)]
    broker = ScriptedBroker(records=bytes(build_batch(records, compression=codec)))

    async def scenario() -> None:
        consumer = Consumer(
            SERVER, fetch_max_bytes=1, max_partition_fetch_bytes=1, fetch_max_decompressed_factor=1
        )
        await consumer.start()
        await consumer.assign([PLACE])
        consumer.seek(PLACE, 0)
        assert len(await consumer.poll(5_000)) == 20
        await consumer.close()

    simulated(broker, scenario)

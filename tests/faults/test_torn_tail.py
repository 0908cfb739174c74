"""A crash in the middle of a write cuts the last batch. Its producer continues (S1;
tests/server/log tries every length)."""

from __future__ import annotations

from pathlib import Path

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, end_offset, events, last_stable_offset, values
from tests.harness.writing import Identity, batch, end_transaction, new_identity, produce

# Bytes that remain of the last batch of about 190 bytes; -1: all but one byte. The cuts are in the
# base offset, the length, the rest of the header, and the records.
REMAINING = (1, 11, 60, 61, 100, -1)


def test_s1_a_torn_last_batch_is_truncated_and_its_retry_is_no_duplicate(tmp_path: Path) -> None:
    """Earlier batches are unchanged. The resent batch is no duplicate, and readers see it once,
    after its commit."""
    broker = Oncelog(tmp_path, QUICK)
    path = broker.data / "t-0" / f"{0:020}.log"
    broker.start()
    with Wire(broker.address) as wire:
        create(wire, "t")
        producer = new_identity(wire, "t")
        assert (
            produce(wire, "t", batch(producer, 0, 1, b"first"), producer=producer).base_offset == 0
        )
    for sequence, remaining in enumerate(REMAINING, 1):
        whole = path.stat().st_size
        with Wire(broker.address) as wire:
            torn = batch(producer, sequence, 1, b"%d" % sequence * 120)
            assert produce(wire, "t", torn, producer=producer).base_offset == sequence
        broker.kill()
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.truncate(whole + remaining if remaining > 0 else size + remaining)
        broker.start()
        with Wire(broker.address) as wire:
            assert end_offset(wire, "t") == sequence
            assert last_stable_offset(wire, "t") == 0
            again = batch(producer, sequence, 1, b"%d" % sequence * 120)
            response = produce(wire, "t", again, producer=producer)
            assert (response.error_code, response.base_offset) == (ErrorCode.NONE, sequence)
    cuts = [event for event in events(broker) if event["event"] == "log recovered"]
    assert [event["cut_file"] for event in cuts] == [f"t-0/{0:020}.log"] * len(REMAINING)
    with Wire(broker.address) as wire:
        assert values(wire, "t") == []
        ended = end_transaction(wire, producer, commit=True)
        expected = [b"first", *(b"%d" % number * 120 for number in range(1, len(REMAINING) + 1))]
        assert values(wire, "t") == expected
        producer = Identity(ended.producer_id, ended.producer_epoch, "t")
        assert (
            produce(wire, "t", batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
        )
    broker.stop()

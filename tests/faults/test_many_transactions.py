"""A broker that dies with many open and many recently decided transactions."""

from __future__ import annotations

from pathlib import Path

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, end_offset, last_stable_offset, values
from tests.harness.waiting import wait_until
from tests.harness.writing import batch, end_transaction, new_identity, produce

COUNT = 40


def test_l10_a_reader_sees_no_record_of_an_open_transaction_after_a_crash(tmp_path: Path) -> None:
    """Of the transactions 0 to 39, those with odd numbers stay open, and the others are decided,
    half of them by an abort. After the crash the open transactions commit."""
    broker = Oncelog(tmp_path, QUICK)
    broker.start()
    with Wire(broker.address) as wire:
        create(wire, "mixed")
        create(wire, "decided")
        producers = [new_identity(wire, f"t{number}") for number in range(COUNT)]
        for number, producer in enumerate(producers):
            topics = ["mixed", "decided"] if number % 2 == 0 else ["mixed"]
            for topic in topics:
                data = batch(producer, 0, value=b"%d" % number)
                assert produce(wire, topic, data, producer=producer).error_code == ErrorCode.NONE
        for number in range(0, COUNT, 2):
            ended = end_transaction(wire, producers[number], commit=number % 4 == 0)
            assert ended.error_code == ErrorCode.NONE
    broker.kill()
    broker.start()
    committed = [b"%d" % number for number in range(0, COUNT, 4)]
    with Wire(broker.address) as wire:
        # The second transaction is the first open one, so no later record may be visible.
        assert values(wire, "mixed") == committed[:1]
        assert last_stable_offset(wire, "mixed") == 1
        assert values(wire, "decided") == committed
        assert last_stable_offset(wire, "decided") == end_offset(wire, "decided")
        for number in range(1, COUNT, 2):
            ended = end_transaction(wire, producers[number], commit=True)
            assert ended.error_code == ErrorCode.NONE
        wait_until(
            lambda: last_stable_offset(wire, "mixed") == end_offset(wire, "mixed"),
            "all transactions are decided",
        )
        shown = [b"%d" % number for number in range(COUNT) if number % 2 or number % 4 == 0]
        assert values(wire, "mixed") == shown
    broker.kill()

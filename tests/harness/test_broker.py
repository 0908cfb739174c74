"""The brokers of the tests."""

from __future__ import annotations

from pathlib import Path

from oncelog.testing.wire import Wire
from oncelog_protocol.messages.metadata import MetadataRequest
from tests.harness.broker import OncelogByAddress


def test_a_broker_by_address_gives_clients_no_name_to_resolve(tmp_path: Path) -> None:
    with OncelogByAddress(tmp_path) as broker, Wire(broker.address) as wire:
        (found,) = wire.call(MetadataRequest(), 12).brokers
        assert f"{found.host}:{found.port}" == broker.address

"""The proxy handles a frame as its rule says, and changes no other frame."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import warnings
from collections.abc import Iterator

import pytest

from oncelog.testing.proxy import (
    Cut,
    Direction,
    Drop,
    Duplicate,
    Flip,
    Hold,
    Proxy,
    Record,
    Throttle,
)
from oncelog.testing.wire import Closed, Wire
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.records.batch import build_batch
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, end_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import batch, new_identity, produce, records


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    with Oncelog(tmp_path_factory.mktemp("proxy"), QUICK) as broker:
        yield broker


@pytest.fixture
def proxy(broker: Oncelog) -> Iterator[Proxy]:
    with Proxy(broker.address) as proxy:
        yield proxy


def test_frames_pass_and_are_noted(proxy: Proxy) -> None:
    with Wire(proxy.address) as wire:
        wire.call(MetadataRequest(topics=[]), 9)
    assert [
        (frame.direction, frame.api, frame.version, frame.client_id) for frame in proxy.frames
    ] == [
        (Direction.REQUEST, ApiKey.METADATA, 9, "wire"),
        (Direction.RESPONSE, ApiKey.METADATA, 9, "wire"),
    ]


def test_a_connection_that_is_accepted_at_the_end_of_the_proxy_is_closed() -> None:
    proxy = Proxy()
    proxy.__enter__()
    host, port = proxy.address.rsplit(":", 1)
    wait_until(lambda: hasattr(proxy, "_server"), "the proxy accepts connections")
    connected = threading.Event()
    ended: list[asyncio.Task[None]] = []

    def begin_to_stop() -> None:
        # The next turn of the loop accepts the connection, the turn after it begins to stop.
        connected.wait()
        proxy._loop.call_soon(lambda: ended.append(proxy._loop.create_task(proxy._stop())))

    proxy._loop.call_soon_threadsafe(begin_to_stop)
    gc.collect()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with socket.create_connection((host, int(port)), timeout=30) as client:
            connected.set()
            assert client.recv(1) == b""
        wait_until(lambda: bool(ended) and ended[0].done(), "the end of the connections")
        proxy._end_loop()
        gc.collect()
    assert [str(warning.message) for warning in found] == []


def test_a_released_request_reaches_the_broker_after_its_client_disconnected(
    broker: Oncelog, proxy: Proxy
) -> None:
    with Wire(broker.address) as direct:
        create(direct, "held")
        held = Hold()
        proxy.on(ApiKey.PRODUCE, held)
        with Wire(proxy.address) as wire:
            wire.socket.settimeout(0.2)
            with pytest.raises(TimeoutError):
                produce(wire, "held", build_batch(records()))
        assert end_offset(direct, "held") == 0
        held.release()
        wait_until(lambda: end_offset(direct, "held") == 1, "the held request has arrived")


def test_a_dropped_response_closes_its_connection(broker: Oncelog, proxy: Proxy) -> None:
    with Wire(broker.address) as direct:
        create(direct, "lost")
        proxy.on(ApiKey.PRODUCE, Drop(), direction=Direction.RESPONSE)
        with Wire(proxy.address) as wire, pytest.raises((Closed, ConnectionResetError)):
            produce(wire, "lost", build_batch(records()))
        assert end_offset(direct, "lost") == 1


def test_the_broker_gets_the_nth_request_twice_and_the_others_once(
    broker: Oncelog, proxy: Proxy
) -> None:
    with Wire(broker.address) as direct, Wire(proxy.address) as wire:
        create(direct, "twice")
        twice = Duplicate()
        proxy.on(ApiKey.PRODUCE, twice, nth=2, client_id="wire")
        for _ in range(3):
            assert produce(wire, "twice", build_batch(records())).error_code == ErrorCode.NONE
        assert twice.response
        assert end_offset(direct, "twice") == 4


def test_a_recorded_request_can_be_sent_again(broker: Oncelog, proxy: Proxy) -> None:
    with Wire(broker.address) as direct, Wire(proxy.address) as wire:
        create(direct, "again")
        recorded = Record()
        proxy.on(ApiKey.PRODUCE, recorded)
        assert produce(wire, "again", build_batch(records())).base_offset == 0
        assert recorded.replay()
        assert end_offset(direct, "again") == 2


def test_a_flipped_byte_a_cut_and_slow_bytes(broker: Oncelog, proxy: Proxy) -> None:
    with Wire(broker.address) as direct:
        create(direct, "bytes")
        producer = new_identity(direct)
        proxy.on(ApiKey.PRODUCE, Flip(-1))
        proxy.on(ApiKey.PRODUCE, Throttle(16, 0.001), nth=2)
        with Wire(proxy.address) as wire:
            # The last byte of a Produce v8 is in the last record, so the CRC detects the change.
            refused = produce(wire, "bytes", batch(producer, 0), version=8)
            assert refused.error_code == ErrorCode.CORRUPT_MESSAGE
            assert produce(wire, "bytes", batch(producer, 0), version=8).base_offset == 0
        proxy.on(ApiKey.PRODUCE, Cut(20))
        with Wire(proxy.address) as wire, pytest.raises((Closed, ConnectionResetError)):
            produce(wire, "bytes", batch(producer, 1), version=8)
        assert end_offset(direct, "bytes") == 1


def test_the_broker_gets_an_overtaken_request_after_the_next_request(
    broker: Oncelog, proxy: Proxy
) -> None:
    with Wire(broker.address) as direct, Wire(proxy.address) as wire:
        create(direct, "order")
        held = Hold(overtaken=True)
        proxy.on(ApiKey.METADATA, held)
        wire.send(MetadataRequest(topics=[]), 9)
        held.wait()
        with Wire(proxy.address) as other:
            assert produce(other, "order", build_batch(records())).base_offset == 0
        held.release()
        assert wire.answer().brokers

"""Resources that a client of a real broker can use up: producer ids, transactional ids and the
producers of a partition."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog_server.metrics.table import PRODUCER_IDS_REFUSED
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, merged
from tests.harness.scraping import PORT, scrape
from tests.harness.writing import (
    Identity,
    batch,
    end_transaction,
    init_producer_id,
    new_identity,
    produce,
)

BLOCK = 1_000
ADDRESS = "oncelog.max.producer.ids.per.address"
PARTITION = "oncelog.max.producer.ids.per.partition"
LIMITED = merged(QUICK, {ADDRESS: "5", PARTITION: "3"})


def producer_ids(wire: Wire, count: int) -> list[int]:
    """Return new producer ids, requested at once. Retry refused requests."""
    ids: list[int] = []
    while len(ids) < count:
        asked = count - len(ids)
        for _ in range(asked):
            wire.send(InitProducerIdRequest(None, 60_000), 4)
        responses = [wire.answer() for _ in range(asked)]
        assert {response.error_code for response in responses} <= {
            ErrorCode.NONE,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        }
        ids += [
            response.producer_id for response in responses if response.error_code == ErrorCode.NONE
        ]
    return ids


def test_e9_no_producer_id_is_assigned_twice_over_ten_crashes(tmp_path: Path) -> None:
    """Some blocks of producer ids are used up, others are abandoned half used."""
    broker = Oncelog(tmp_path, QUICK)
    seen: list[int] = []
    for life in range(10):
        broker.start()
        with Wire(broker.address) as wire:
            seen += producer_ids(wire, 2 * BLOCK + 100 if life == 3 else 50)
            producer = new_identity(wire, f"t{life}")
            seen.append(producer.producer_id)
        broker.kill()
    assert len(seen) == len(set(seen))
    assert seen == sorted(seen)


def test_e10_a_transactional_id_gets_a_second_producer_id_after_the_last_epoch(
    tmp_path: Path,
) -> None:
    with Oncelog(tmp_path, QUICK) as broker, Wire(broker.address) as wire:
        producer = new_identity(wire, "t")
        responses = [(producer.producer_id, producer.producer_epoch)]
        for _ in range(33):
            for _ in range(BLOCK):
                wire.send(InitProducerIdRequest("t", 60_000), 4)
            for _ in range(BLOCK):
                response = wire.answer()
                assert response.error_code == ErrorCode.NONE
                responses.append((response.producer_id, response.producer_epoch))
        assert len(set(responses)) == len(responses)
        assert len({producer_id for producer_id, _ in responses}) == 2
        assert max(epoch for _, epoch in responses) == 32_766
        create(wire, "a")
        newest = Identity(*responses[-1], "t")
        assert produce(wire, "a", batch(newest, 0), producer=newest).error_code == ErrorCode.NONE
        assert end_transaction(wire, newest, commit=True).error_code == ErrorCode.NONE


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Wire]:
    """A connection to a broker with at most five producer ids per address and three per
    partition."""
    with Oncelog(tmp_path, LIMITED) as broker, Wire(broker.address) as wire:
        create(wire, "a", partitions=2)
        yield wire


def test_h60_h61_an_address_gets_producer_ids_up_to_its_limit(limited: Wire) -> None:
    assert len(producer_ids(limited, 3)) == 3
    known = [new_identity(limited, name) for name in ("one", "two")]
    for name in (None, "three"):
        refused = init_producer_id(limited, name)
        assert refused.error_code == ErrorCode.POLICY_VIOLATION
    for producer in known:
        # The broker serves a known producer, even with a new epoch.
        assert init_producer_id(limited, producer.transactional_id).error_code == ErrorCode.NONE


def test_h60_a_partition_at_its_limit_refuses_a_new_producer_and_names_the_setting(
    limited: Wire,
) -> None:
    writers = [Identity(number, 0) for number in producer_ids(limited, 4)]
    for producer in writers[:3]:
        assert produce(limited, "a", batch(producer, 0)).error_code == ErrorCode.NONE
    refused = produce(limited, "a", batch(writers[3], 0))
    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    assert "oncelog.max.producer.ids.per.partition" in (refused.error_message or "")
    assert produce(limited, "a", batch(writers[0], 1)).error_code == ErrorCode.NONE
    assert produce(limited, "a", batch(writers[3], 0), partition=1).error_code == ErrorCode.NONE


def test_h60_either_limit_is_logged(tmp_path: Path) -> None:
    """There is one log event a minute for each limit. Metrics count all refusals."""
    with Oncelog(tmp_path, LIMITED | PORT) as broker, Wire(broker.address) as wire:
        create(wire, "a")
        writers = [Identity(number, 0) for number in producer_ids(wire, 5)]
        for _ in range(3):
            assert init_producer_id(wire, None).error_code == ErrorCode.POLICY_VIOLATION
        for producer in writers:
            produce(wire, "a", batch(producer, 0))
        page = scrape(broker)
    events = [json.loads(line) for line in broker.log.read_text().splitlines() if line[:1] == "{"]
    logged = [
        {name: event[name] for name in event if name not in {"timestamp", "level"}}
        for event in events
        if event["event"] == "producer id refused"
    ]
    common = {"event": "producer id refused", "refused": 1}
    assert logged == [
        {**common, "setting": ADDRESS, "limit": 5, "client_address": "/127.0.0.1"},
        {**common, "setting": PARTITION, "limit": 3, "partition": "a-0"},
    ]
    assert page.value(PRODUCER_IDS_REFUSED.name, setting=ADDRESS) == 3
    assert page.value(PRODUCER_IDS_REFUSED.name, setting=PARTITION) == 2

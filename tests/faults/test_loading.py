"""Clients that send requests without a pause while the broker starts and loads the coordinators'
state (C-H). A coordinator serves clients only after it has loaded everything. A request during the
load waits or gets a retriable error. No response says that an id or a group is unknown."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from oncelog.testing.wire import Closed, Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from oncelog_protocol.messages.describe_transactions import DescribeTransactionsRequest
from oncelog_protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog_protocol.messages.list_transactions import ListTransactionsRequest
from oncelog_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, events, values
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    BUSY,
    Identity,
    batch,
    end_transaction,
    find_coordinator,
    init_producer_id,
    new_identity,
    produce,
)

HAMMERS = 4
RESTARTS = 3
# So many idle ids that the load of the coordinator takes a while.
OTHER_IDS = 2_000
OFFSET = 42
# One round in this many includes a listing of all ids, because a listing is long.
ROUNDS_OF_A_LISTING = 10
LAST_EPOCH = 32_000


@dataclass
class Hammer:
    """A client that sends requests in a loop: for an open transaction, for an idle id with an epoch
    that is bumped again and again, and for a group."""

    address: str
    number: int
    opened: Identity
    idle: Identity
    over: threading.Event
    codes: Counter[tuple[str, ErrorCode]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    turned_away: int = 0
    rounds: int = 0

    def run(self) -> None:
        while not self.over.is_set():
            try:
                with Wire(self.address) as wire:
                    while not self.over.is_set():
                        self.ask(wire)
            except TimeoutError:
                self.wrong.append("no response")
            except (OSError, Closed):
                self.turned_away += 1

    def ask(self, wire: Wire) -> None:
        self.find(wire)
        self.add(wire)
        self.init(wire)
        self.describe(wire)
        self.offset(wire)
        if self.rounds % ROUNDS_OF_A_LISTING == 0:
            self.list(wire)
        self.rounds += 1

    def is_served(self, what: str, code: int) -> bool:
        self.codes[what, ErrorCode(code)] += 1
        return code == ErrorCode.NONE

    def expect(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            self.wrong.append(f"{what}: {found}, not {expected}")

    def find(self, wire: Wire) -> None:
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.idle_id])
        self.is_served("FindCoordinator", wire.call(request, 4).coordinators[0].error_code)

    def add(self, wire: Wire) -> None:
        """Add a partition that the transaction already has."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.opened.transactional_id or "",
            v3_and_below_producer_id=self.opened.producer_id,
            v3_and_below_producer_epoch=self.opened.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic("t", [self.number])],
        )
        (topic,) = wire.call(request, 3).results_by_topic_v3_and_below
        self.is_served("AddPartitionsToTxn", topic.results_by_partition[0].partition_error_code)

    def init(self, wire: Wire) -> None:
        """Get the id's next epoch. If no response comes, repeat the request."""
        if self.idle.producer_epoch >= LAST_EPOCH:
            return
        response = init_producer_id(wire, self.idle_id, current=self.idle)
        if self.is_served("InitProducerId", response.error_code):
            found = Identity(response.producer_id, response.producer_epoch, self.idle_id)
            self.expect("InitProducerId", found, self.idle.aged(1))
            self.idle = found

    def describe(self, wire: Wire) -> None:
        name = self.opened.transactional_id or ""
        (found,) = wire.call(DescribeTransactionsRequest([name]), 0).transaction_states
        if self.is_served("DescribeTransactions", found.error_code):
            self.expect("its state", found.transaction_state, "Ongoing")

    def offset(self, wire: Wire) -> None:
        asked = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
        group = OffsetFetchRequestGroup(group_id="g", topics=[asked])
        (found,) = wire.call(OffsetFetchRequest(groups=[group]), 8).groups
        if self.is_served("OffsetFetch", found.error_code):
            (partition,) = found.topics[0].partitions
            self.expect("offset", (partition.error_code, partition.committed_offset), (0, OFFSET))

    def list(self, wire: Wire) -> None:
        """Check that a listing has all ids or gets an error. It must never have only some ids."""
        response = wire.call(ListTransactionsRequest(), 0)
        if self.is_served("ListTransactions", response.error_code):
            self.expect("ids", len(response.transaction_states), OTHER_IDS + 2 * HAMMERS)

    @property
    def idle_id(self) -> str:
        return self.idle.transactional_id or ""


def new_ids(wire: Wire) -> None:
    """Create the ids to load."""
    wanted = [f"other-{number}" for number in range(OTHER_IDS)]
    while wanted:
        sent, wanted = wanted[:100], wanted[100:]
        for transactional_id in sent:
            wire.send(InitProducerIdRequest(transactional_id, 60_000), 5)
        for transactional_id in sent:
            code = wire.answer().error_code
            if code != ErrorCode.NONE:
                assert code in BUSY
                wanted.append(transactional_id)


def commit_offset(wire: Wire) -> None:
    find_coordinator(wire, "g", key_type=0)
    place = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, OFFSET)])
    response = wire.call(OffsetCommitRequest(group_id="g", topics=[place]), 8)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE


def hammers(broker: Oncelog, wire: Wire) -> list[Hammer]:
    """Return clients, each with an open transaction in its own partition."""
    create(wire, "t", partitions=HAMMERS)
    over = threading.Event()
    found = []
    for number in range(HAMMERS):
        opened = new_identity(wire, f"open-{number}", timeout_ms=600_000)
        idle = new_identity(wire, f"idle-{number}")
        sent = produce(wire, "t", batch(opened, 0), producer=opened, partition=number)
        assert sent.error_code == ErrorCode.NONE
        found.append(Hammer(broker.address, number, opened, idle, over))
    commit_offset(wire)
    new_ids(wire)
    return found


def wait_for_answers(clients: list[Hammer]) -> None:
    """Wait until every client has received one more response to each kind of request."""
    goals = [(client, client.rounds + ROUNDS_OF_A_LISTING + 1) for client in clients]
    wait_until(lambda: all(loop.rounds >= goal for loop, goal in goals), "all clients are served")


def is_committed(wire: Wire, partition: int) -> bool:
    return values(wire, "t", partition=partition) == [b"v"]


def test_ch_a_loading_coordinator_never_responds_with_a_part_of_its_state(
    tmp_path: Path,
) -> None:
    broker = Oncelog(tmp_path, QUICK)
    broker.start()
    with Wire(broker.address) as wire:
        clients = hammers(broker, wire)
    with ThreadPoolExecutor(HAMMERS) as threads:
        running = [threads.submit(client.run) for client in clients]
        try:
            for _ in range(RESTARTS):
                wait_for_answers(clients)
                broker.kill()
                broker.start()
            wait_for_answers(clients)
        finally:
            clients[0].over.set()
    for run in running:
        run.result()
    for client in clients:
        assert client.wrong == []
        assert {code for _, code in client.codes} <= {ErrorCode.NONE, *BUSY}, client.codes
        assert client.turned_away >= RESTARTS
    with Wire(broker.address) as wire:
        for client in clients:
            assert end_transaction(wire, client.opened, commit=True).error_code == ErrorCode.NONE
        for client in clients:
            wait_until(
                partial(is_committed, wire, client.number), "the open transactions are committed"
            )
    events(broker)
    broker.stop()

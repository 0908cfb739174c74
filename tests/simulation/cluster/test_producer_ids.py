"""The producer ids of several brokers, which are given once."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Final

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncelog_server.cluster import records
from oncelog_server.cluster.producer_ids import BLOCK_SIZE
from tests.simulation.cluster.member_node import MemberNode
from tests.simulation.cluster.metadata import PREFIX
from tests.simulation.cluster.raw_client import TIMEOUT_MS, RawClient
from tests.simulation.cluster.stage import SECOND_US, Stage, play
from tests.simulation.cluster.transaction_stage import AWAY_US
from tests.simulation.cuts import both_ways
from tests.simulation.etcd.kv import KeyRange, Read

# As many requests as a client sends at once.
AT_ONCE: Final = 50
CYCLES: Final = 10


class UsedUpBlock(Stage):
    """A coordinator uses up its block of producer ids while the controller is down and the
    coordinator is cut off from etcd. Then brokers die ten times."""

    taken: list[int]

    async def act(self) -> None:
        await self.create_internal_topics()
        await self.until(self.in_sync, "all brokers are in sync")
        self.taken = []
        client = RawClient(self, "raw")
        controller = self.controller()
        id, coordinator = self._id_of_another(controller)
        self.kill(controller, 3 * SECOND_US)
        cuts = both_ways([coordinator.host], self.etcd.hosts)
        self.net.cuts.add(cuts)
        while (codes := await self._take(client, coordinator, AT_ONCE)) == {ErrorCode.NONE}:
            pass
        if codes - {ErrorCode.NONE} != {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
            self.violate(f"without producer ids the codes are {codes}")
        if controller.is_up:
            self.violate("the controller is up again")
        if len(self.taken) != BLOCK_SIZE:
            self.violate(f"{len(self.taken)} ids of a block were assigned")
        await self._check_refused(client, coordinator, id)
        self.net.cuts.remove(cuts)
        self.kill(coordinator, AWAY_US)
        self.taken.append((await client.initialize(id))[0])
        await self.until(self.in_sync, "all brokers are in sync")
        for cycle in range(CYCLES):
            await self._take_of_all(client)
            # In every fifth cycle all brokers die, and then request their blocks at the same time.
            dying = self.up() if cycle % 5 == 4 else [self.nodes[1 + cycle % len(self.nodes)]]
            for node in dying:
                self.kill(node, SECOND_US // 10)
            await self.until(lambda: len(self.up()) == len(self.nodes), "all brokers are up")
        await self._take_of_all(client)
        if len({*self.taken}) < len(self.taken):
            self.violate(f"of {len(self.taken)} producer ids, {len({*self.taken})} differ")
        await client.end()

    def controller(self) -> MemberNode:
        key = PREFIX + records.CONTROLLER.encode()
        (found,) = self.etcd.etcd.state.kv.read(Read(KeyRange(key))).kvs
        return self.nodes[records.decode(records.ControllerRecord, found.value).broker_id]

    def _id_of_another(self, controller: MemberNode) -> tuple[str, MemberNode]:
        """Return a transactional id, and its coordinator, which is not the controller."""
        for id in map(str, count()):
            coordinator = self.nodes[self.leader_of(self.transaction_log(id))]
            if coordinator is not controller:
                return id, coordinator
        raise AssertionError

    async def _take(self, client: RawClient, node: MemberNode, number: int) -> set[ErrorCode]:
        """Request producer ids of a broker. Return the codes of the responses."""
        request = InitProducerIdRequest(None, TIMEOUT_MS)
        responses = await asyncio.gather(
            *(
                client.call(node.broker_id, request, InitProducerIdResponse, 5)
                for _ in range(number)
            )
        )
        self.taken += [response.producer_id for response in responses if not response.error_code]
        return {ErrorCode(response.error_code) for response in responses}

    async def _take_of_all(self, client: RawClient) -> None:
        for node in self.up():
            if await self._take(client, node, 2) != {ErrorCode.NONE}:
                self.violate(f"{node.host} has no producer ids")

    async def _check_refused(self, client: RawClient, coordinator: MemberNode, id: str) -> None:
        """Check that the coordinator refuses a new transactional id, and keeps no state of it."""
        request = InitProducerIdRequest(id, TIMEOUT_MS)
        response = await client.call(coordinator.broker_id, request, InitProducerIdResponse, 5)
        if response.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self.violate(f"a new id gets {ErrorCode(response.error_code).name}")
        if id in coordinator.broker.transactions.owner(id)[1].transactions:
            self.violate("the coordinator has a state of the refused id")


def test_e9_no_producer_id_is_given_twice_though_a_block_was_used_up_without_a_controller() -> None:
    play(UsedUpBlock)

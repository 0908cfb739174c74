"""Worlds with options that a test sets, instead of options drawn from a seed. Each test also shows
that its situation has occurred."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.produce import ProduceRequest
from oncelog_protocol.requests import Requests
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from tests.simulation.fault import Fault
from tests.simulation.inspection import inspect_running
from tests.simulation.loop import Scheduling, SimLoop
from tests.simulation.net import SimNet
from tests.simulation.options import LEAST_TRANSACTIONS, Options
from tests.simulation.process import Process
from tests.simulation.replay import Replay
from tests.simulation.report import Figures, failure_lines
from tests.simulation.run import Verdict, run_world
from tests.simulation.workloads.append import Append
from tests.simulation.workloads.client import Client
from tests.simulation.world import World

SEED = 1
FEW = 12
ONE_WRITER = Options(
    scheduling=Scheduling.FIFO,
    step_us=5,
    flush_on_ack=True,
    latency_us=(50, 100),
    segmentation=0.0,
    coalescing=0.5,
    clogging=0.0,
    small_window=False,
    replaying=0.0,
    replay_after_us=(100, 1_000),
    drift_ppm=0,
    segment_bytes=4_000,
    index_interval_bytes=200,
    transaction_partitions=2,
    offsets_partitions=2,
    topic_partitions=2,
    transaction_timeout_ms=1_500,
    checkpoint_ms=2_000,
    flush_ms=None,
    cleaner_backoff_ms=500,
    cleanable_ratio=0.5,
    periods=2,
    period_us=700_000,
    faults_per_period=1,
    kinds=(),
    damage=0.0,
    loss_ordered=True,
    loss_holes=0.0,
    workloads={"append": 1, "reader": 1},
    transactions=FEW,
)


def check(verdict: Verdict) -> None:
    assert not verdict.failed, "\n".join(failure_lines(verdict))


# --- the size of a world


def test_a_world_of_one_writer_has_enough_transactions() -> None:
    verdict = run_world(SEED, ONE_WRITER, [])
    check(verdict)
    # The writer has continued after its own quota.
    assert verdict.transactions >= LEAST_TRANSACTIONS > FEW


def test_a_world_that_is_too_small_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Append, "has_done_enough", Client.has_done_enough)
    verdict = run_world(SEED, ONE_WRITER, [])
    assert 0 < verdict.transactions < LEAST_TRANSACTIONS
    assert any("transactions were begun" in violation for violation in verdict.violations)
    figures = Figures()
    figures.add(verdict)
    assert any(f", {verdict.transactions} at least" in line for line in figures.lines())


# --- a coordinator that resigns


SLOW_US = 500_000


class Resigning(World):
    """A world in which a coordinator resigns while one of its records is being synced."""

    async def live(self, faults: list[Fault]) -> None:
        await super().live(faults)
        broker, process = self.node.broker, self.node.process
        assert process is not None
        self.node.disk.weather.sync_us = (SLOW_US, SLOW_US)
        index, shard = broker.transactions.owner("late")
        partition = broker.partitions.require(TRANSACTION_STATE, index)

        async def ask() -> None:
            broker.transactions.init_producer_id(InitProducerId("late", 60_000))

        await process.run(ask())
        assert partition.high_watermark < partition.log_end_offset
        process.context.run(partition.resign)
        inspect_running(self, self.node)
        await asyncio.sleep(2 * SLOW_US / 1e6)
        # The record is on disk now. The resigned coordinator does not know whether it is committed.
        assert partition.recovery_point == partition.log_end_offset
        found = shard.get("late")
        assert found is None or not found.is_listed
        inspect_running(self, self.node)
        self.inflicted["resigned"] += 1
        self.stop_and_restart(1_000)


def test_a_coordinator_that_has_resigned_is_not_compared_with_its_log() -> None:
    verdict = run_world(SEED, ONE_WRITER, [], kind=Resigning)
    check(verdict)
    assert verdict.inflicted["resigned"] == 1


# --- frames that arrive twice


class Surroundings:
    """The part of a world that `Replay`, the sender of repeated frames, needs. It has its own
    network."""

    def __init__(self, loop: SimLoop) -> None:
        self.net = loop.network = SimNet(loop, Random(SEED))
        self.net_process = Process("network", 1)
        self.client_process = Process("client", 2)
        self.broker_process = Process("broker", 3)
        self.is_healed = False
        self.inflicted: Counter[str] = Counter()
        self.node = SimpleNamespace(disk=SimpleNamespace(power_losses=0))
        self.net.watch = Replay(cast(Any, self), 1.0, (10_000, 10_000))

    def rng(self, name: str) -> Random:
        return Random(name)


class Hearing(asyncio.Protocol):
    """The broker's end of every connection. It collects the bytes of all connections."""

    heard: bytes = b""

    def data_received(self, data: bytes) -> None:
        Hearing.heard += data


def frames_heard(transactional_id: str | None, *, power_losses: int) -> int:
    """Return the number of times that the broker gets a frame of Produce v12. `power_losses`: the
    number of power losses between the frame and its repetition."""
    Hearing.heard = b""
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=1_000)
    _, parts = Requests("client").send(request, 12)
    frame = b"".join(bytes(part) for part in parts)
    loop = SimLoop(SEED)
    around = Surroundings(loop)

    async def scenario() -> None:
        await around.broker_process.start(_serve(around.net))
        transport, _ = await around.client_process.start(_connection(loop))
        transport.write(frame)
        await asyncio.sleep(0.005)
        around.node.disk.power_losses += power_losses
        await asyncio.sleep(2.0)

    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(scenario())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    assert around.inflicted[f"replayed {ApiKey.PRODUCE.name}"] == 1
    assert len(Hearing.heard) % len(frame) == 0
    return len(Hearing.heard) // len(frame)


async def _serve(net: SimNet) -> None:
    server = await net.create_server(Hearing, "broker", 9092)
    await server.start_serving()


async def _connection(loop: SimLoop) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
    return await loop.create_connection(asyncio.Protocol, "broker", 9092)


@pytest.mark.parametrize(
    ("transactional_id", "power_losses", "heard"),
    [(None, 0, 2), (None, 1, 1), ("t", 0, 2), ("t", 1, 2)],
    ids=[
        "frame without part 2",
        "frame without part 2, and a power loss",
        "frame of part 2",
        "frame of part 2, and a power loss",
    ],
)
def test_a_frame_without_KIP_890_part_2_is_not_repeated_after_a_power_loss(
    transactional_id: str | None, power_losses: int, heard: int
) -> None:
    """A power loss may have removed all batches of the producer. The broker would then accept the
    batch of the repeated frame as the producer's first batch."""
    assert frames_heard(transactional_id, power_losses=power_losses) == heard

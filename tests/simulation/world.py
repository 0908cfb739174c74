"""The world of one seed: a broker, its clients, its faults, and the final checks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial
from typing import Any, Final

from oncelog_server.broker import Broker
from oncelog_server.cluster.topics import NewTopic
from tests.simulation.aging import AGED_FROM, age
from tests.simulation.base_world import BaseWorld
from tests.simulation.broker_settings import settings_of
from tests.simulation.denied import DeniedRequests
from tests.simulation.durability import not_durable
from tests.simulation.fault import Fault
from tests.simulation.faults import Faults
from tests.simulation.inspection import EVERY_US, inspect_loaded, inspect_running, inspect_start
from tests.simulation.log_capture import LogCapture
from tests.simulation.lone_node import LoneNode
from tests.simulation.loop import SimLoop
from tests.simulation.observation import observe_death
from tests.simulation.options import Options
from tests.simulation.replay import Replay
from tests.simulation.users import Users, check_owners
from tests.simulation.workloads.append import Append
from tests.simulation.workloads.churn import Churn
from tests.simulation.workloads.client import Client
from tests.simulation.workloads.copy import Copy
from tests.simulation.workloads.group_commit import GroupCommit
from tests.simulation.workloads.money import Money
from tests.simulation.workloads.pipelined import Hijack, PipelinedV1, PipelinedV2
from tests.simulation.workloads.plain import Feeder, Plain
from tests.simulation.workloads.reader import Reader
from tests.simulation.workloads.rights import HOST, Rights, allowing_rules, denying_rules
from tests.simulation.workloads.table import Table
from tests.simulation.workloads.two_phase import TwoPhase

HOSTED: Final = (
    "listeners=PLAINTEXT://broker:9092",
    "transaction.two.phase.commit.enable=true",
)

KINDS: dict[str, type[Client]] = {
    workload.kind: workload
    for workload in (
        Append,
        Churn,
        Copy,
        Feeder,
        GroupCommit,
        Hijack,
        Money,
        PipelinedV1,
        PipelinedV2,
        Plain,
        Reader,
        Rights,
        Table,
        TwoPhase,
    )
}


class World(BaseWorld):
    """A world. After `live`, `Judgement` makes the final checks."""

    bootstrap = "broker:9092"

    def __init__(self, seed: int, options: Options, loop: SimLoop, capture: LogCapture) -> None:
        super().__init__(seed, options, loop, capture)
        self.needs_restart = False
        self._restarting = False
        self._is_stopping = False
        self._looks_at_loads = False
        self.net_process = self.new_process("network")
        if options.replaying:
            self.net.watch = Replay(self, options.replaying, options.replay_after_us)
        self.node = LoneNode(
            loop, self.rng("broker"), settings_of(options, HOSTED), self.new_process
        )
        self.node.clock = type(self.node.clock)(loop, options.drift_ppm)
        self.node.on_death = self._broker_died
        self.node.on_sync = self._synced
        if self.has_rights:
            self.net.unwatched.add(HOST)
            self.node.around = self._check_denied

    @property
    def has_rights(self) -> bool:
        """Return True if the broker has an authorizer, and a client has few rights."""
        return Rights.kind in self.options.workloads

    def _broker_died(self, broker: Broker) -> None:
        if not self._is_stopping:
            observe_death(self, broker)

    def _check_denied(self, dispatch: Any) -> Users:
        def found(right: str, effects: list[str]) -> None:
            self.sometimes.met(f"denied {right}")
            if effects:
                self.violate(f"I20: a request without {right} changed {', '.join(effects)}")

        def broker() -> Broker | None:
            return self.node.broker if self.node.is_up else None

        return Users(DeniedRequests(dispatch, HOST, broker, found))

    def _synced(self, broker: Broker, directories: Collection[str]) -> None:
        for wrong in not_durable(list(broker.partitions), directories, self.node.disk):
            self.violate(wrong)

    # The run.

    @property
    def is_restarting(self) -> bool:
        return self._restarting

    def restart_after(self, delay_us: int) -> None:
        """Start the broker again after this time. It is down now, or about to be."""
        if not self._restarting:
            self._restarting = True
            self.background(self._restart(delay_us))

    def stop_and_restart(self, delay_us: int) -> None:
        if not self._restarting:
            self._restarting = True
            self.background(self._restart(delay_us, stop=True))

    async def _restart(self, delay_us: int, *, stop: bool = False) -> None:
        if stop:
            # A paused broker cannot stop.
            self.node.resume()
            await self.stop()
        await asyncio.sleep(delay_us / 1e6)
        await self._start_until_up()
        self._restarting = False

    async def stop(self) -> None:
        """Stop the broker cleanly, then end its process."""
        await self.node.stop()
        self._is_stopping = True
        self.node.kill()
        self._is_stopping = False

    async def _start_until_up(self) -> None:
        for attempt in range(200):
            try:
                if await self.node.start():
                    break
            except Exception as error:
                # A broker may refuse to start on a failing disk. Once the faults have ended, a
                # refusal after more than 20 attempts is a violation.
                self.sometimes.met("start refused")
                self._last_refusal = repr(error)
                if self.is_healed and attempt > 20:
                    self.violate(f"the broker does not start: {error!r}")
                    raise
            await asyncio.sleep(0.02)
        else:
            raise AssertionError("the broker does not start")
        inspect_start(self)
        self.node.watch_loads(self._shard_loaded)

    def _shard_loaded(self) -> None:
        """Schedule an inspection of the loaded shards. It runs between two events of the broker, at
        most once in a turn of the loop."""
        if not self._looks_at_loads:
            self._looks_at_loads = True
            self.after(0, self._inspect_loaded)

    def _inspect_loaded(self) -> None:
        self._looks_at_loads = False
        if self.node.is_up:
            inspect_loaded(self, self.node)

    async def live(self, faults: list[Fault]) -> None:
        """Run the world from the first start to the end of the last client, with all faults."""
        if self.has_rights:
            # A broker without super users starts only if a rule allows something.
            self.node.write_rules(allowing_rules())
        assert await self.node.start()
        await self._create_topics()
        self._make_clients()
        if self.has_rights:
            await self._create_rules()
        if self.seed >= AGED_FROM:
            await age(
                self, [name for name in self.transactional_ids if self.rng(name).random() < 0.7]
            )
        lives = self.start_clients()
        acting = Faults(self)
        for fault in faults:
            self.after(fault.at_us, partial(acting.inflict, fault))
        self.after(EVERY_US, self._inspect)
        horizon_us = self.options.periods * self.options.period_us
        self.after(horizon_us + 2_000_000, self.heal)
        # After this time, clients stop even if their work is not done.
        self.after(horizon_us + 12_000_000, lambda: setattr(self, "is_late", True))
        await self.until_clients_end(lives, horizon_us / 1e6 + 60)
        self.heal()

    def _inspect(self) -> None:
        if self.node.is_up:
            inspect_running(self, self.node)
            if self.has_rights:
                check_owners(self)
        if not self.is_healed:
            self.after(EVERY_US, self._inspect)

    async def _create_topics(self) -> None:
        broker, process = self.node.broker, self.node.process
        assert process is not None
        count = self.options.topic_partitions
        topics = [NewTopic(name, count, 1) for name in ("a", "in", "out")]
        if "table" in self.options.workloads:
            compacted = {
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": "0.01",
                "delete.retention.ms": "500",
                "internal.segment.bytes": "600",
            }
            topics.append(NewTopic("table", count, 1, settings=compacted))
        await process.run(broker.metadata.create_topics(topics))

    async def _create_rules(self) -> None:
        broker, process = self.node.broker, self.node.process
        assert process is not None
        rules = list(denying_rules(self.transactional_ids, self.groups))
        await process.run(broker.metadata.users.create_acls(rules))

    def _make_clients(self) -> None:
        counts = dict(self.options.workloads)
        if counts.get("copy"):
            counts["feeder"] = 1
        for kind in sorted(counts):
            for number in range(counts[kind]):
                self.clients.append(KINDS[kind](self, f"{kind}-{number}"))

    def heal(self) -> None:
        """End all faults, and start what has failed."""
        if self.is_healed:
            return
        self.healing.set()
        disk, weather = self.node.disk, self.net.weather
        disk.trap = None
        disk.weather = type(disk.weather)()
        self.node.store.is_full = False
        weather.clogging = weather.segmentation = 0.0
        self.node.clock.unfreeze_wall()
        self.node.clock.wall_offset_ms = 0
        self.node.resume()
        self.resume_clients()
        if self.needs_restart:
            self.stop_and_restart(1_000)

    async def healed(self) -> None:
        """Wait until the broker is up and no fault will end it."""
        for _ in range(2_000):
            self.raise_failures()
            if self.node.is_up and not self._restarting:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("the broker does not come up again")

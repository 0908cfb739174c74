"""A start of a broker beside an etcd that falls silent at a chosen request of this start."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec

from oncelog_server.cluster.records import BROKERS, BrokerRecord
from oncelog_server.etcd_gateway.requests import WATCH
from tests.simulation.broker_settings import settings_of
from tests.simulation.cluster.member_node import MemberNode, host_of
from tests.simulation.cluster.metadata import PREFIX
from tests.simulation.cluster.stage import OPTIONS, Stage
from tests.simulation.disk import Loss
from tests.simulation.etcd.faults import Fault
from tests.simulation.etcd.kv import KeyRange
from tests.simulation.etcd.processes import PORT
from tests.simulation.log_capture import LogCapture
from tests.simulation.loop import SimLoop

SESSION_S: Final = 9.0
# Longer than a silence, and shorter than two.
TIMEOUT_S: Final = 60.0
ENDLESS_S: Final = 1_000.0
# The time between the end of the silence and the moment at which etcd carries out a late request.
LATE_S: Final = 0.3
# A simulated clock has no finer end of a wait.
TOLERANCE_S: Final = 0.2
STORE: Final = f"http://etcd-1:{PORT}"
_KEY: Final = PREFIX + BROKERS.encode() + b"1"
REGISTRATION: Final = KeyRange(_KEY, _KEY + b"\0")


class Directory(Enum):
    """The data directory of the broker: new, stopped cleanly before a loss of power, or that of a
    killed process with a registration that is still alive."""

    NEW = "new"
    STOPPED = "stopped"
    KILLED = "killed"


class Request(Enum):
    """What becomes of the request at which etcd falls silent. DROPPED: it is not carried out.
    DONE: it is carried out, and its response is lost. LATE: it is refused with an unknown outcome,
    and carried out after the silence."""

    DROPPED = "dropped"
    DONE = "done"
    LATE = "late"


class Silence(NamedTuple):
    """etcd falls silent at the request `at` of the start, for this time."""

    at: int
    seconds: float
    request: Request = Request.DROPPED


class SilentStart(Stage):
    """Broker 1 alone, with a listener of each kind and first users, so that its start makes every
    kind of request. The environment variable of the first users must be set.

    After `live`, `requests` are those of the start, `failure` is the error that ended it, and
    `took_s` the time until then.
    """

    directory = Directory.NEW
    timeout_s = TIMEOUT_S
    silences: tuple[Silence, ...] = ()
    # The path of the first request without a response ever. Empty: there is none.
    last_path = ""

    def __init__(self, seed: int, loop: SimLoop, capture: LogCapture) -> None:
        super().__init__(seed, replace(OPTIONS, brokers=1), loop, capture)
        self.requests: list[str] = []
        # The revisions at which this start has registered, and the registration that etcd has.
        self.epochs: list[int] = []
        self.registration: BrokerRecord | None = None
        self._seen = 0
        self.failure: OSError | None = None
        self.took_s = 0.0
        self.is_silent = False

    def _new_node(self, broker_id: int) -> MemberNode:
        node = super()._new_node(broker_id)
        host = host_of(broker_id)
        node.settings = settings_of(
            self.options,
            (
                f"node.id={broker_id}",
                f"listeners=SASL_PLAINTEXT://{host}:9092,PLAINTEXT://{host}:9093",
                "sasl.enabled.mechanisms=SCRAM-SHA-256",
                f"oncelog.etcd.endpoints={STORE}",
                f"broker.session.timeout.ms={int(SESSION_S * 1000)}",
                f"initial.broker.registration.timeout.ms={int(self.timeout_s * 1000)}",
                "controlled.shutdown.enable=false",
            ),
        )
        return node

    @property
    def node(self) -> MemberNode:
        return self.nodes[1]

    async def live(self, faults: list[Any]) -> None:
        await self.etcd.start()
        await self._prepare()
        member = self.etcd.etcd.members[0]
        member.on_request = self._asked
        self._seen = self.etcd.etcd.state.kv.revision
        self.etcd.etcd.state.kv.on_commit.append(self._committed)
        began = self.loop.time()
        try:
            await self.node.start()
        except OSError as error:
            self.failure = error
        self.took_s = self.loop.time() - began
        member.on_request = lambda path: None

    async def _prepare(self) -> None:
        if self.directory is Directory.NEW:
            return
        node = self.node
        await node.start()
        if self.directory is Directory.KILLED:
            node.kill()
            return
        await node.stop()
        node.kill()
        node.lose_power(Loss(ordered=True, holes=0.0), self.rules.metadata.revision)

    def _asked(self, path: str) -> None:
        number = len(self.requests)
        self.requests.append(path)
        for silence in self.silences:
            if silence.at == number:
                self._fall_silent(path, silence)
        if path == self.last_path:
            self._fall_silent(path, Silence(number, ENDLESS_S))

    def _fall_silent(self, path: str, silence: Silence) -> None:
        faults = self.etcd.etcd.members[0].faults
        if silence.request is Request.DROPPED or path == WATCH:
            faults.awake.close()
        else:
            done = silence.request is Request.DONE
            faults.add(path, Fault.HUNG if done else Fault.LATE)
            faults.late_s = silence.seconds + LATE_S
            # etcd takes this request yet.
            self.loop.call_soon(faults.awake.close)
        self.is_silent = True
        self.after(int(silence.seconds * 1e6), self._respond_again)

    def _respond_again(self) -> None:
        self.is_silent = False
        self.etcd.etcd.members[0].faults.awake.open()

    def _committed(self) -> None:
        kv = self.etcd.etcd.state.kv
        commits = list(kv.commits(REGISTRATION, self._seen + 1))
        self._seen = kv.revision
        for _, present in (event for commit in commits for event in commit.events):
            self.registration = None
            if present is not None:
                self.registration = msgspec.json.decode(present.value, type=BrokerRecord)
                if present.create_revision == present.mod_revision:
                    self.epochs.append(present.create_revision)

    def leases(self) -> list[int]:
        """Return the leases of etcd."""
        return [lease.id for lease in self.etcd.etcd.state.leases.all()]

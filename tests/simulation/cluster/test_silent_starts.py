"""etcd falls silent at each request of a broker's start in turn. The start waits for it, until one
deadline for all of its steps."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

import pytest

from oncelog_server.etcd_gateway.requests import GRANT
from oncelog_server.metadata.store_wait import CALL_S
from tests.simulation.cluster.silent_start import (
    ENDLESS_S,
    SESSION_S,
    STORE,
    TOLERANCE_S,
    Directory,
    Request,
    Silence,
    SilentStart,
)
from tests.simulation.cluster.stage import OPTIONS
from tests.simulation.run import judged

# The shortest silence is longer than a call of etcd, the longest one than five sessions.
SILENCES_S: Final = (5.5, 7.0, 12.0, 25.0, 50.0)
DEADLINE_S: Final = 12.0
SETTING: Final = "initial.broker.registration.timeout.ms"


@pytest.fixture(autouse=True)
def first_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "users"
    file.write_text("admin:SCRAM-SHA-256:secret\n")
    file.chmod(0o600)
    monkeypatch.setenv("ONCELOG_BOOTSTRAP_USER_FILE", str(file))


def play(stage: type[SilentStart]) -> SilentStart:
    """Return the stage after its start. Fail the test if there is a violation."""
    stages: list[SilentStart] = []

    async def whole(world: SilentStart) -> None:
        stages.append(world)
        await world.live([])
        await world.check()

    verdict = judged(1, OPTIONS, [], lambda loop, capture: stage(1, loop, capture), whole)
    assert not verdict.failed, "\n".join([*verdict.events[-30:], *verdict.violations])
    return stages[0]


def requests_of(directory: Directory) -> list[str]:
    """Return the requests of a start beside an etcd that responds."""
    stage = play(type("Undisturbed", (Registered,), {"directory": directory}))
    return stage.requests


class Registered(SilentStart):
    """The start succeeds, and the broker has one registration, with one lease."""

    async def check(self) -> None:
        where = f"{self.directory} {self.silences}"
        if self.failure is not None:
            self.violate(f"{where}: {self.failure}")
            return
        membership = self.node.broker.metadata.membership
        await self.until(
            lambda: (
                membership.is_valid
                and self.registration is not None
                and self.registration.lease_id == membership.lease_id
            ),
            "the broker is registered",
        )
        if self.epochs[-1] != membership.broker_epoch:
            self.violate(f"{where}: epochs {self.epochs}, not {membership.broker_epoch}")
        if len(self.epochs) > 1 and sum(each.seconds for each in self.silences) < SESSION_S - 1:
            self.violate(f"{where}: registered at {self.epochs}, although the lease was alive")
        assert self.registration is not None
        if self.directory is not Directory.NEW and not self.registration.kept_epochs:
            self.violate(f"{where}: the directory counts as empty")
        await self.until(
            lambda: self.leases() == [membership.lease_id], f"{where}: no lease is left over"
        )
        if self.capture.defects:
            self.violate(f"{where}: {self.capture.defects}")


@pytest.mark.parametrize("request_", Request)
@pytest.mark.parametrize("directory", Directory)
def test_a_start_succeeds_whenever_etcd_was_silent(directory: Directory, request_: Request) -> None:
    lengths = Random(f"{directory} {request_}")
    for at in range(len(requests_of(directory))):
        silence = Silence(at, lengths.choice(SILENCES_S), request_)
        play(type("Once", (Registered,), {"directory": directory, "silences": (silence,)}))


class Ended(SilentStart):
    """The start ends at the deadline, with one message."""

    timeout_s = DEADLINE_S
    most_s = DEADLINE_S + TOLERANCE_S

    async def check(self) -> None:
        where = f"{self.directory} {self.silences}"
        if self.failure is None:
            self.violate(f"{where}: the broker has started")
            return
        if not DEADLINE_S <= self.took_s <= self.most_s:
            self.violate(f"{where}: {self.took_s} s: {self.failure}")
        said = str(self.failure)
        if SETTING not in said or STORE not in said or " awaited " not in said:
            self.violate(f"{where}: {said}")
        if self.capture.defects:
            self.violate(f"{where}: {self.capture.defects}")


def awaited(directory: Directory) -> int:
    """Return the number of requests that a start needs: all but the election of the controller."""
    return len(requests_of(directory)) - 1


@pytest.mark.parametrize("request_", [Request.DROPPED, Request.DONE])
@pytest.mark.parametrize("directory", Directory)
def test_a_start_ends_at_its_deadline_if_etcd_stays_silent(
    directory: Directory, request_: Request
) -> None:
    for at in range(awaited(directory)):
        silence = Silence(at, ENDLESS_S, request_)
        play(type("Endless", (Ended,), {"directory": directory, "silences": (silence,)}))


def test_all_steps_of_a_start_have_one_deadline() -> None:
    """etcd is silent for less than the timeout, and falls silent again before the registration. The
    deadline comes during the first call after that, which ends by itself."""
    silences = (Silence(2, 8.0),)
    most_s = DEADLINE_S + CALL_S
    play(type("Twice", (Ended,), {"silences": silences, "last_path": GRANT, "most_s": most_s}))


class Unelected(SilentStart):
    """The registered broker serves as any broker without etcd, and decides when etcd is back."""

    async def check(self) -> None:
        assert self.failure is None
        assert self.is_silent
        metadata = self.node.broker.metadata
        await self.until(lambda: metadata.image.controller_id == 1, "the controller is elected")
        await self.until(lambda: metadata.membership.is_valid, "the broker is registered")


def test_a_registered_broker_does_not_wait_for_the_election_of_the_controller() -> None:
    last = len(requests_of(Directory.NEW)) - 1
    play(type("Last", (Unelected,), {"silences": (Silence(last, SESSION_S),)}))

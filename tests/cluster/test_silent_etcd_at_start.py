"""etcd is stopped by SIGSTOP in the middle of a broker's start. The start waits for it until its
deadline. The disk of an etcd that stands still has the same effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oncelog_server.cluster.records import BROKERS
from tests.cluster.test_id_in_use import IN_USE
from tests.harness.broker import Oncelog, OncelogByAddress
from tests.harness.cluster import QUICK
from tests.harness.etcd import Etcd
from tests.harness.etcd_gateway import text
from tests.harness.waiting import wait_until

WAITS = "the broker waits for its metadata"
SETTING = "initial.broker.registration.timeout.ms"
# Longer than a call of etcd.
SHORT_MS = 10_000
END_S = 30.0


def broker(directory: Path, etcd: Etcd, prefix: str, timeout_ms: int) -> Oncelog:
    settings = {
        **QUICK,
        "node.id": "1",
        "oncelog.etcd.endpoints": ",".join(etcd.urls),
        "oncelog.etcd.prefix": prefix,
        SETTING: str(timeout_ms),
    }
    return OncelogByAddress(directory, settings)


@contextmanager
def silent_in_start(
    tmp_path: Path, etcd: Etcd, prefix: str, timeout_ms: int, *, is_new: bool
) -> Iterator[Oncelog]:
    """Yield a broker that is in the middle of its start, beside a stopped etcd. It looks at the
    registration of its id twice a second, because another broker has the id. With a new directory
    it does so before it writes the directory, with an older one it tries to register."""
    starting = broker(tmp_path / "starting", etcd, prefix, timeout_ms)
    if not is_new:
        with starting:
            pass
    (member,) = etcd.members
    holder = broker(tmp_path / "holder", etcd, prefix, timeout_ms)
    try:
        holder.start()
        starting.spawn()
        wait_until(lambda: IN_USE in starting.log.read_text(), "the broker waits for its id")
        member.pause()
        holder.kill()
        yield starting
    finally:
        member.resume()
        holder.kill()
        starting.kill()


def registrations(etcd: Etcd, prefix: str) -> int:
    start = f"{prefix}{BROKERS}"
    keys = {"key": text(start), "range_end": text(f"{start[:-1]}0")}
    return len(etcd.members[0].request("/v3/kv/range", keys).get("kvs", []))


@pytest.mark.parametrize("is_new", [True, False])
def test_a_start_continues_when_etcd_responds_again(
    tmp_path: Path, real_etcd: Etcd, is_new: bool
) -> None:
    """The start used to end after 5 s."""
    prefix = f"/silent-start-{is_new}/"
    with silent_in_start(tmp_path, real_etcd, prefix, 60_000, is_new=is_new) as starting:
        wait_until(
            lambda: not starting.is_running or WAITS in starting.log.read_text(),
            "a call without a response",
        )
        assert starting.is_running, starting.said()
        real_etcd.members[0].resume()
        wait_until(lambda: "listening on" in starting.output.read_text(), "the start", END_S)
        assert registrations(real_etcd, prefix) == 1


@pytest.mark.parametrize("is_new", [True, False])
def test_a_start_ends_at_its_deadline(tmp_path: Path, real_etcd: Etcd, is_new: bool) -> None:
    prefix = f"/silent-end-{is_new}/"
    with silent_in_start(tmp_path, real_etcd, prefix, SHORT_MS, is_new=is_new) as starting:
        assert starting.wait_for_death(END_S) == 1
        (said,) = (line for line in starting.log.read_text().splitlines() if "cannot start" in line)
        store = f"etcd at {real_etcd.urls[0]} has not served this start within {SHORT_MS} ms"
        assert said.startswith(f"oncelog cannot start: {store} ({SETTING}): the broker awaited the")
        assert f"no response from etcd at {real_etcd.urls[0]}" in said
        left = {path.name for path in starting.data.glob("*")} - {".lock"}
        assert bool(left) is not is_new
        assert is_new or ".kafka_cleanshutdown" in left

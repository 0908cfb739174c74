"""When a process dies, its exit monitor ends its lease in a real etcd: with TLS, with a login, with
a member that does not run. While the process lives, even if it is paused, the lease stays."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import structlog

from oncelog_server.config import load_settings
from oncelog_server.exit_monitor import process
from oncelog_server.exit_monitor.process import ExitMonitorProcess, monitored
from tests.harness.certificates import Certificates
from tests.harness.etcd import ROOT as ROOT_USER
from tests.harness.etcd import Etcd
from tests.harness.etcd_fixtures import etcd_program, real_etcd
from tests.harness.processes import children, command
from tests.harness.repository import ROOT
from tests.harness.waiting import wait_until
from tests.server.exit_monitor import dying_broker
from tests.server.exit_monitor.dying_broker import UNREGISTERED
from tests.server.metadata.brokers import until

__all__ = ["etcd_program", "real_etcd"]

# No lease ends by itself within a test.
TTL_S = 600
PASSWORD = "secret"


class Leases:
    """The leases of an etcd."""

    def __init__(self, etcd: Etcd) -> None:
        self._member = etcd.members[0]

    def grant(self) -> int:
        return int(self._member.request("/v3/lease/grant", {"TTL": str(TTL_S)})["ID"])

    def lives(self, lease_id: int) -> bool:
        found = self._member.request("/v3/lease/timetolive", {"ID": str(lease_id)})
        return int(found["TTL"]) > 0


@contextmanager
def monitored_process(
    lease_id: int, *assignments: str, loop: str = "uvloop"
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Yield a process and the id of its exit monitor."""
    program = [sys.executable, "-m", dying_broker.__name__, loop, str(lease_id), *assignments]
    with subprocess.Popen(
        program, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as dying:
        assert dying.stdout is not None
        (monitor,) = json.loads(dying.stdout.readline())
        try:
            yield dying, monitor
        finally:
            dying.kill()


def endpoints(urls: Sequence[str]) -> str:
    return f"oncelog.etcd.endpoints={','.join(urls)}"


def ignores(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.partition("SigIgn:")[2].split()[0], 16) & 1 << number - 1)


def ends(monitor: int) -> None:
    wait_until(lambda: not Path(f"/proc/{monitor}").exists(), "the end of the monitor")


def test_a_kill_ends_the_lease_and_a_pause_does_not(real_etcd: Etcd) -> None:
    leases = Leases(real_etcd)
    lease_id, other = leases.grant(), leases.grant()
    with monitored_process(lease_id, endpoints(real_etcd.urls)) as (dying, monitor):
        wait_until(lambda: ignores(monitor, signal.SIGTERM), "the monitor runs")
        # A signal for all processes of a service also arrives at the monitor.
        os.kill(monitor, signal.SIGTERM)
        dying.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, dying.pid, os.WSTOPPED | os.WNOWAIT)
        assert leases.lives(lease_id)
        dying.kill()
        wait_until(lambda: not leases.lives(lease_id), "the end of the lease")
        assert leases.lives(other)
        ends(monitor)
        assert dying.stderr is not None
        errors = dying.stderr.read()
        assert b"the process of broker 1 has ended, and was still registered" in errors
        assert b"its registration has ended now" in errors


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_stop_that_could_not_end_the_lease_leaves_this_to_the_monitor(
    real_etcd: Etcd, loop: str
) -> None:
    """The end of the loop must not kill the monitor."""
    leases = Leases(real_etcd)
    lease_id = leases.grant()
    with monitored_process(lease_id, endpoints(real_etcd.urls), loop=loop) as (stopping, _):
        stopping.send_signal(signal.SIGTERM)
        wait_until(lambda: not leases.lives(lease_id), "the end of the lease")


def test_a_lease_that_has_ended_already_is_no_failure(real_etcd: Etcd) -> None:
    with monitored_process(12_345, endpoints(real_etcd.urls)) as (dying, monitor):
        dying.kill()
        ends(monitor)
        assert dying.stderr is not None
        assert dying.stderr.read() == b"", "the monitor has ended no registration"


def test_the_monitor_of_a_process_without_a_registration_prints_nothing(real_etcd: Etcd) -> None:
    leases = Leases(real_etcd)
    lease_id = leases.grant()
    with monitored_process(lease_id, endpoints(real_etcd.urls), UNREGISTERED) as (dying, monitor):
        dying.kill()
        ends(monitor)
        assert not leases.lives(lease_id)
        assert dying.stderr is not None
        assert dying.stderr.read() == b""


def test_the_monitor_uses_a_member_that_runs(real_etcd: Etcd) -> None:
    leases = Leases(real_etcd)
    lease_id = leases.grant()
    down = "http://127.0.0.1:9"
    with monitored_process(lease_id, endpoints([down, *real_etcd.urls])) as (dying, _):
        dying.kill()
        wait_until(lambda: not leases.lives(lease_id), "the end of the lease")


def test_the_monitor_gives_up_after_a_session_without_etcd() -> None:
    down = endpoints(["http://127.0.0.1:9"])
    short = "broker.session.timeout.ms=300", "broker.heartbeat.interval.ms=100"
    with monitored_process(7, down, *short) as (dying, monitor):
        dying.kill()
        ends(monitor)
        assert dying.stderr is not None
        assert b"its registration ends with its session, or as soon as" in dying.stderr.read()


def test_the_monitor_does_not_keep_the_errors_of_the_broker_open() -> None:
    """A supervisor may read standard error to its end before it starts the broker again."""
    down = endpoints(["http://127.0.0.1:9"])
    with monitored_process(7, down, "broker.session.timeout.ms=600000") as (dying, monitor):
        dying.kill()
        assert dying.stderr is not None
        assert b"Connection refused" in dying.stderr.read()
        # A process that has ended has no command.
        assert "exit_monitor" in " ".join(command(monitor))
        os.kill(monitor, signal.SIGKILL)


def test_the_monitor_calls_an_etcd_with_tls_that_demands_certificates(
    etcd_program: str, tmp_path: Path
) -> None:
    certificates = Certificates(tmp_path)
    with Etcd(tmp_path, certificates=certificates, demands_certificates=True) as etcd:
        leases = Leases(etcd)
        lease_id = leases.grant()
        with monitored_process(
            lease_id,
            endpoints(etcd.urls),
            f"oncelog.etcd.ssl.truststore.location={certificates.authority_path}",
            f"oncelog.etcd.ssl.keystore.location={certificates.server.pem_path}",
        ) as (dying, _):
            dying.kill()
            wait_until(lambda: not leases.lives(lease_id), "the end of the lease")


def test_the_monitor_logs_in(etcd_program: str, tmp_path: Path) -> None:
    with Etcd(tmp_path, password=PASSWORD) as etcd:
        login = f"oncelog.etcd.username={ROOT_USER}", f"oncelog.etcd.password={PASSWORD}"
        # A login that fails would be a failure, even for a lease that has ended already.
        with monitored_process(7, endpoints(etcd.urls), *login) as (dying, monitor):
            assert PASSWORD not in Path(f"/proc/{monitor}/cmdline").read_text()
            assert PASSWORD not in Path(f"/proc/{monitor}/environ").read_text()
            dying.kill()
            ends(monitor)
            assert dying.stderr is not None
            assert dying.stderr.read() == b""


@asynccontextmanager
async def own_monitor(
    etcd: Etcd,
) -> AsyncIterator[tuple[ExitMonitorProcess, Callable[[], set[int]]]]:
    """Yield a monitor of this process, and a function that returns the ids of its processes. Close
    the monitor at the end, and wait for the end of the processes."""
    before = {*children(os.getpid())}
    settings = load_settings(assignments=[endpoints(etcd.urls)]).settings
    monitor = ExitMonitorProcess(monitored(settings))
    try:
        yield monitor, lambda: {*children(os.getpid())} - before
    finally:
        await monitor.close()
        await until(lambda: not {*children(os.getpid())} - before)


async def test_a_closed_monitor_leaves_the_lease(real_etcd: Etcd) -> None:
    leases = Leases(real_etcd)
    lease_id = leases.grant()
    async with own_monitor(real_etcd) as (monitor, processes):
        monitor.start()
        monitor.keep(lease_id)
        await until(lambda: monitor._transport is not None)
        (child,) = processes()
        await until(lambda: ignores(child, signal.SIGTERM))
        await monitor.close()
        assert not processes(), "a loop must not end before its processes"
    assert leases.lives(lease_id)


async def test_a_monitor_that_is_closed_while_it_starts_leaves_no_process(real_etcd: Etcd) -> None:
    for turns in range(4):
        async with own_monitor(real_etcd) as (monitor, processes):
            monitor.start()
            for _ in range(turns):
                await asyncio.sleep(0)  # the close comes after this turn of the loop
            await monitor.close()
            assert not processes(), "a loop must not end before its processes"


async def test_another_monitor_starts_if_one_dies(
    real_etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "RESTART_S", 0.01)
    async with own_monitor(real_etcd) as (monitor, processes):
        monitor.start()
        await until(lambda: bool(processes()))
        (first,) = processes()
        os.kill(first, signal.SIGKILL)
        await until(lambda: bool(processes() - {first}))
        assert first not in processes()


async def test_after_any_failure_of_the_start_another_one_is_made(
    real_etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "RESTART_S", 0.01)
    loop = asyncio.get_running_loop()
    async with own_monitor(real_etcd) as (monitor, processes):
        with monkeypatch.context() as broken, structlog.testing.capture_logs() as logged:
            broken.setattr(loop, "subprocess_exec", None)
            monitor.start()
            await until(lambda: bool(logged))
        assert isinstance(logged[0]["exc_info"], TypeError)
        await until(lambda: bool(processes()))


async def test_a_lease_for_a_monitor_that_has_just_died_is_no_failure(
    real_etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop may see the end of the pipe before the end of the process."""
    monkeypatch.setattr(process, "RESTART_S", 0.01)
    async with own_monitor(real_etcd) as (monitor, processes):
        monitor.start()
        await until(lambda: monitor._transport is not None)
        (first,) = processes()
        assert monitor._transport is not None
        pipe = monitor._transport.get_pipe_transport(0)
        assert pipe is not None
        os.kill(first, signal.SIGSTOP)
        pipe.close()
        await until(lambda: "closed=True" in repr(pipe))
        monitor.keep(12_345)
        os.kill(first, signal.SIGKILL)
        await until(lambda: len(processes() - {first}) == 1)

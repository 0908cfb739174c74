"""A real etcd for tests: one or three members on free ports, with a fresh data directory.

The program is that of ONCELOG_TEST_ETCD, else of the PATH, else of Debian's package `etcd-server`,
which is unpacked and not installed. `python -m tests.harness.etcd` fetches it.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from oncelog.testing.ports import reserve_port
from tests.harness.debian import DebianUnavailable, unpacked
from tests.harness.http_response import read_response
from tests.harness.waiting import wait_until

if TYPE_CHECKING:
    from tests.harness.certificates import Certificates

START_TIMEOUT_S: Final = 60.0
CALL_TIMEOUT_S: Final = 10.0
ROOT: Final = "root"


def _reserve_addresses() -> None:
    """Lift the limit of the address space in the new process: etcd reserves 10 GB of addresses, and
    uses few of them. `make mutate` limits the tests, and so their processes."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def program() -> str:
    """Return the path of etcd. Raises DebianUnavailable."""
    named = os.environ.get("ONCELOG_TEST_ETCD") or shutil.which("etcd")
    return named or str(unpacked("etcd-server") / "usr" / "bin" / "etcd")


class EtcdMember:
    """A member: its process, its ports, its part of the data."""

    def __init__(self, folder: Path, name: str, certificates: Certificates | None) -> None:
        self.name = name
        self.port = reserve_port(self)
        self._peer_port = reserve_port(self)
        self._folder = folder
        self._certificates = certificates
        # The authority of the certificate that the member shows after its next start.
        self.shown = certificates
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Return the address for clients, HOST:PORT."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{'https' if self._certificates else 'http'}://{self.address}"

    @property
    def peer_url(self) -> str:
        return f"http://127.0.0.1:{self._peer_port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def launch(self, cluster: str, options: Sequence[str]) -> None:
        """Start the process, on its former data if it had some. Do not wait for it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if self.shown is not None:
            identity = self.shown.server.pem_path
            options = [
                *options,
                f"--cert-file={identity}",
                f"--key-file={identity}",
            ]
        with (self._folder / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    program(),
                    f"--name={self.name}",
                    f"--data-dir={self._folder / self.name}",
                    f"--listen-client-urls={self.url}",
                    f"--advertise-client-urls={self.url}",
                    f"--listen-peer-urls={self.peer_url}",
                    f"--initial-advertise-peer-urls={self.peer_url}",
                    f"--initial-cluster={cluster}",
                    *options,
                ],
                # In the tests that start an etcd, no other thread holds a lock at the fork.
                preexec_fn=_reserve_addresses,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def await_health(self) -> None:
        """Return once the member is healthy: it has a leader, and no alarm."""
        wait_until(self._is_healthy, f"health of etcd at {self.url}", START_TIMEOUT_S)

    def _is_healthy(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"etcd ended: {self._tail()}"
        try:
            return bool(self.request("/health").get("health") == "true")
        except OSError:
            return False

    def _tail(self) -> str:
        return (self._folder / f"{self.name}.log").read_text(errors="replace")[-2000:]

    def request(self, path: str, body: object = None, token: str = "") -> dict[str, Any]:
        """Return the document that a path responds with. `token` is that of a login. Raises
        OSError, also for an error."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data)
        if token:
            request.add_header("Authorization", token)
        context = None
        if self._certificates is not None and self.shown is not None:
            context = ssl.create_default_context(cadata=self.shown.authority_pem)
            # For an etcd that demands certificates of its clients.
            context.load_cert_chain(self._certificates.server.pem_path)
        document: dict[str, Any] = json.loads(read_response(request, CALL_TIMEOUT_S, context))
        return document

    def pause(self) -> None:
        """Suspend the process. The system still accepts connections for it."""
        os.kill(self.pid, signal.SIGSTOP)
        # All threads have stopped when the system reports the stop.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the process cleanly."""
        self._end(signal.SIGTERM)

    def save(self, target: Path) -> None:
        """Copy the data of the stopped member."""
        assert self._process is None
        shutil.copytree(self._folder / self.name, target)

    def replace(self, source: Path | None) -> None:
        """Replace the data of the stopped member by a copy, or by nothing."""
        assert self._process is None
        shutil.rmtree(self._folder / self.name)
        if source is not None:
            shutil.copytree(source, self._folder / self.name)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_TIMEOUT_S)
            self._process = None


class Etcd:
    """An etcd, as a context manager.

    `certificates`: clients use TLS, and need a certificate if `demands_certificates`. `password`:
    that of the user `root`; clients must log in. `options`: further arguments of each member.
    `durable`: etcd syncs its files, which a test does not need.
    """

    def __init__(
        self,
        folder: Path,
        members: int = 1,
        *,
        certificates: Certificates | None = None,
        demands_certificates: bool = False,
        password: str | None = None,
        options: Sequence[str] = (),
        durable: bool = False,
    ) -> None:
        self.members = [
            EtcdMember(folder, f"member-{number}", certificates) for number in range(members)
        ]
        self._password = password
        self._options = ["--bcrypt-cost=4", *options]
        if not durable:
            self._options.append("--unsafe-no-fsync")
        if demands_certificates:
            assert certificates is not None
            self._options += [
                "--client-cert-auth",
                f"--trusted-ca-file={certificates.authority_path}",
            ]

    def __enter__(self) -> Etcd:
        try:
            self.start(*self.members)
            if self._password is not None:
                self._demand_logins(self._password)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Return the addresses of the members, HOST:PORT."""
        return tuple(member.address for member in self.members)

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(member.url for member in self.members)

    def start(self, *members: EtcdMember) -> None:
        """Start members, and wait until they are healthy."""
        cluster = ",".join(f"{member.name}={member.peer_url}" for member in self.members)
        for member in members:
            member.launch(cluster, self._options)
        for member in members:
            member.await_health()

    def close(self) -> None:
        for member in self.members:
            member.kill()

    def leader(self) -> EtcdMember:
        """Return the present leader."""
        for member in self.members:
            status = member.request("/v3/maintenance/status", {})
            if status["leader"] == status["header"]["member_id"]:
                return member
        raise AssertionError("no member is the leader")

    def change_password(self, password: str) -> None:
        """Change the password of the user `root`."""
        member = self.members[0]
        login = {"name": ROOT, "password": self._password}
        token = member.request("/v3/auth/authenticate", login)["token"]
        member.request("/v3/auth/user/changepw", {"name": ROOT, "password": password}, token)
        self._password = password

    def _demand_logins(self, password: str) -> None:
        member = self.members[0]
        member.request("/v3/auth/user/add", {"name": ROOT, "password": password})
        member.request("/v3/auth/role/add", {"name": ROOT})
        member.request("/v3/auth/user/grant", {"user": ROOT, "role": ROOT})
        member.request("/v3/auth/enable", {})


def main() -> None:
    """Fetch etcd, or say why that is not possible here."""
    try:
        line = f"etcd for the tests: {program()}"
    except (DebianUnavailable, OSError, subprocess.TimeoutExpired) as error:
        reason = " ".join(str(error).split())
        line = f"no etcd: its tests skip. Install it, or set ONCELOG_TEST_ETCD. ({reason})"
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()

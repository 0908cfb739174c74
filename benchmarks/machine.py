"""The computer: its description, the resources of a process, and the cores of a process."""

from __future__ import annotations

import os
import platform
import resource
import shlex
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

# The kernel's encoding of a process id as a clock: posix-timers.h, make_process_cpuclock.
_CLOCK_BITS: Final = 3
_CLOCK_OF_SCHEDULER: Final = 2
_KB: Final = 1024
# Options of CPython's `configure`: profile-guided and link-time optimization. The image's Python
# has both.
_FASTER: Final = ("--enable-optimizations", "--with-lto")


class UnfitMachine(Exception):
    """The bench cannot run here. The message has the reason."""


def require_linux() -> None:
    """Raise UnfitMachine if the system lacks /proc or CPU affinity. The bench measures and pins
    with them."""
    if not Path("/proc/self/stat").exists() or not hasattr(os, "sched_setaffinity"):
        raise UnfitMachine("the bench reads /proc and pins processes: it needs Linux")


def all_cores() -> frozenset[int]:
    """Return the cores that this process may use."""
    return frozenset(os.sched_getaffinity(0))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far, in steps of a nanosecond.

    The clock is that of clock_getcpuclockid(3). Threads that have ended count too, for
    example those of a JVM's compiler.
    """
    return time.clock_gettime_ns(~pid << _CLOCK_BITS | _CLOCK_OF_SCHEDULER) / 1e9


def resident_bytes(pid: int) -> int:
    """Return the resident set of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * _KB
    raise UnfitMachine(f"no VmRSS of process {pid}")


def pin(pid: int, cores: Set[int]) -> None:
    """Pin all threads of a process to these cores. Its later threads inherit the cores."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), cores)


def allow_open_files(count: int) -> None:
    """Raise the limit of open files of this process and its later children. Raises UnfitMachine if
    the system refuses."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise UnfitMachine(f"{count} open files are needed, the limit is {hard}: ulimit -n")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))


@contextmanager
def on_cores(cores: Set[int]) -> Iterator[None]:
    """Pin all processes that this thread starts inside the block to these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Priority(NamedTuple):
    """How the system schedules a process: a policy of `os`, and a priority of that policy."""

    policy: int
    priority: int = 0

    def give(self, pid: int) -> None:
        """Schedule all threads of a process with this priority. Its later threads and processes
        inherit this. Raises PermissionError."""
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(ProcessLookupError):
                os.sched_setscheduler(int(task.name), self.policy, os.sched_param(self.priority))


@contextmanager
def with_priority(priority: Priority) -> Iterator[None]:
    """Schedule all processes that this thread starts inside the block with this priority. Raises
    PermissionError."""
    before = Priority(os.sched_getscheduler(0), os.sched_getparam(0).sched_priority)
    priority.give(os.getpid())
    try:
        yield
    finally:
        before.give(os.getpid())


def facts() -> dict[str, str | int]:
    """Return the facts about the computer on which the figures depend."""
    return {
        "cpu": _line_of("/proc/cpuinfo", "model name"),
        "cores": len(all_cores()),
        "memory_bytes": int(_line_of("/proc/meminfo", "MemTotal").split()[0]) * _KB,
        "kernel": platform.release(),
        "python": _python_version(),
        "java": _java_version(),
    }


def _line_of(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "0"


def _python_version() -> str:
    """Return the version, with the options of the interpreter's build that make it faster."""
    options = shlex.split(str(sysconfig.get_config_var("CONFIG_ARGS") or ""))
    found = {option.partition("=")[0] for option in options}
    return " ".join([platform.python_version(), *(name for name in _FASTER if name in found)])


def _java_version() -> str:
    java = shutil.which("java")
    if java is None:
        return "none"
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    return said.partition("\n")[0]

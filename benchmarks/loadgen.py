"""The load generators in C: one for requests, one for new connections. They are compiled at first
use, kept in the user's cache, and run as processes."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from benchmarks.machine import UnfitMachine, on_cores

_SOURCES = Path(__file__).with_name("native")
_LOADGEN = _SOURCES / "loadgen.c"
_CONNECTOR = _SOURCES / "connector.c"
_FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra")
_TLS_FLAGS = ("-DWITH_TLS", "-lssl", "-lcrypto")
_RUN_TIMEOUT_S = 300.0


class LoadFailed(Exception):
    """A load process failed, for example at an error of the broker, or it did not end in time. The
    message has the reason."""


def program(source: Path = _LOADGEN, *, with_tls: bool = False) -> Path:
    """Return the path of a load generator, compiled if necessary. Raises UnfitMachine if there is
    no C compiler, or if the compiler fails, for example without OpenSSL's headers."""
    flags = _TLS_FLAGS if with_tls else ()
    content = b"".join(path.read_bytes() for path in sorted(_SOURCES.glob("*.[ch]")))
    digest = hashlib.sha256(content + " ".join((*_FLAGS, *flags)).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oncelog" / "bench"
    compiled = cache / f"{source.stem}-{digest}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not compiled.exists():
            _compile(source, compiled, flags)
    return compiled


def _compile(source: Path, target: Path, flags: Sequence[str]) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise UnfitMachine("no C compiler (`cc`) on the PATH: the load generators are in C")
    unfinished = target.with_suffix(".compiling")
    # The linker needs the libraries after the file that uses them.
    command = [compiler, *_FLAGS, "-o", str(unfinished), str(source), *flags]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode:
        raise UnfitMachine(f"{compiler} failed: {outcome.stderr}")
    unfinished.rename(target)


def run_loadgen(
    mode: str,
    port: int,
    requests: Path,
    cores: Set[int],
    options: Mapping[str, float],
    *,
    with_tls: bool = False,
) -> dict[str, float]:
    """Run the load on these cores, with options of loadgen.c. Return its measurements.

    Raises LoadFailed at the first error of the broker.
    """
    return _run(program(with_tls=with_tls), mode, port, requests, cores, options)


def run_connector(
    mode: str, port: int, requests: Path, cores: Set[int], options: Mapping[str, float]
) -> dict[str, float]:
    """Open new TLS connections from these cores, with options of connector.c. Return its
    measurements.

    Raises LoadFailed at the first error of the broker, and for a resumed session in the mode
    `full`.
    """
    return _run(program(_CONNECTOR, with_tls=True), mode, port, requests, cores, options)


def _run(
    generator: Path,
    mode: str,
    port: int,
    requests: Path,
    cores: Set[int],
    options: Mapping[str, float],
) -> dict[str, float]:
    words = [f"--{name}={value}" for name, value in options.items()]
    return run_load([str(generator), mode, str(port), str(requests), *words], cores)


def run_load(command: list[str], cores: Set[int]) -> dict[str, float]:
    """Run a load process to its end. Return the JSON of its last line. Raises LoadFailed."""
    measured: dict[str, float] = json.loads(run_program(command, cores).splitlines()[-1])
    return measured


def run_program(command: list[str], cores: Set[int]) -> str:
    """Run a load process on these cores to its end. Return its output. Raises LoadFailed."""
    with on_cores(cores):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    try:
        said, errors = process.communicate(timeout=_RUN_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise LoadFailed(f"no end after {_RUN_TIMEOUT_S} s: {command}") from None
    if process.returncode or not said.strip():
        raise LoadFailed(f"{' '.join(command)}: {errors.strip()}")
    return said

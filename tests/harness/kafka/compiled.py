"""Java programs of the tests, compiled at first use. The user's cache keeps the classes."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.harness.kafka.jars import KafkaUnavailable, cache_directory


def compiled(source: Path, jars: str) -> Path:
    """Return the jar of the program in the file `source`. `jars` is its class path. Several
    processes may call this at once. Raises KafkaUnavailable.

    A folder of classes would not do: a JVM that has one in its class path archives no classes.
    """
    digest = hashlib.sha256(source.read_bytes() + jars.encode()).hexdigest()[:16]
    program = cache_directory() / f"{source.stem.lower()}-{digest}.jar"
    cache_directory().mkdir(parents=True, exist_ok=True)
    with (cache_directory() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _compile(source, jars, program)
    return program


def _compile(source: Path, jars: str, program: Path) -> None:
    compiler = shutil.which("javac")
    if compiler is None:
        raise KafkaUnavailable("no `javac` on the PATH")
    work = program.with_suffix(".compiling")
    shutil.rmtree(work, ignore_errors=True)
    outcome = subprocess.run(
        [compiler, "-cp", jars, "-d", str(work), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode:
        raise KafkaUnavailable(f"javac failed: {outcome.stderr}")
    made = Path(shutil.make_archive(str(work), "zip", work))
    shutil.rmtree(work)
    made.rename(program)

"""Archives of the classes that a Java program has loaded. With an archive, a JVM starts in a third
of the time (application class data sharing, JEP 350)."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path


class ClassArchive:
    """An archive in `folder` for this `java` and one set of jars. A program can use it if its class
    path begins with the jars in the folder `jars`."""

    def __init__(self, folder: Path, java: str, jars: Path) -> None:
        self._path = folder / f"classes-{_fingerprint(java, jars)}.jsa"

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of a JVM that uses the archive: none if there is no archive."""
        if not self._path.exists() or not self._path.stat().st_size:
            return ()
        # A JVM with another class path cannot use the archive. The log options suppress its
        # warning.
        return f"-XX:SharedArchiveFile={self._path}", "-Xlog:cds=off", "-Xlog:class+path=off"

    def make(self, run: Callable[[Sequence[str]], None]) -> None:
        """Create the archive once. `run` gets the options of a JVM, and that JVM must end by
        itself.

        While one process creates the archive, other processes continue without it. If a JVM creates
        no archive, no process tries again.
        """
        if self._path.exists():
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            if self._path.exists():
                return
            made = self._path.with_suffix(".new")
            made.unlink(missing_ok=True)
            run((f"-XX:ArchiveClassesAtExit={made}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"))
            made.touch()
            made.rename(self._path)


def _fingerprint(java: str, jars: Path) -> str:
    """Return a name for java and the jars. A JVM refuses an archive of other jars or another
    JVM."""
    files = [Path(java).resolve(), *sorted(jars.glob("*.jar"))]
    known = [(str(file), (stat := file.stat()).st_size, stat.st_mtime_ns) for file in files]
    return hashlib.sha256(repr(known).encode()).hexdigest()[:16]

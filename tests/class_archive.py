"""Archives of the classes that a program in Java has loaded: a JVM that starts from one needs a
third of the time (application class data sharing, JEP 350)."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path


class ClassArchive:
    """In `folder`, for the programs that have the jars of the folder `jars` first on their class
    path, run by this `java`. With other ones it is another archive."""

    def __init__(self, folder: Path, java: str, jars: Path) -> None:
        self._path = folder / f"classes-{_fingerprint(java, jars)}.jsa"

    @property
    def options(self) -> tuple[str, ...]:
        """For a JVM that starts from it: none where there is none (yet)."""
        if not self._path.exists() or not self._path.stat().st_size:
            return ()
        # Whose class path begins otherwise gets no use of it, and need not say so.
        return f"-XX:SharedArchiveFile={self._path}", "-Xlog:cds=off", "-Xlog:class+path=off"

    def make(self, run: Callable[[Sequence[str]], None]) -> None:
        """Once: `run` gets options for a JVM that it lets come to its own end.

        Who asks while another process makes it goes without. Of a JVM that makes none, none is
        asked again.
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
    """A JVM does not take an archive whose jars have been touched, or that another JVM has made."""
    files = [Path(java).resolve(), *sorted(jars.glob("*.jar"))]
    known = [(str(file), (stat := file.stat()).st_size, stat.st_mtime_ns) for file in files]
    return hashlib.sha256(repr(known).encode()).hexdigest()[:16]

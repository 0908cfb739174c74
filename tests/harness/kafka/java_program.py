"""A Java program that a test kills and starts again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.harness.application import Application
from tests.harness.class_archive import ClassArchive
from tests.harness.kafka.jars import java
from tests.harness.kafka.kafka import TEST_JVM_OPTIONS

# The exit status of a JVM that ends by itself, and after SIGTERM.
ENDED = {0, 143}


class JavaProgram(Application):
    """The class `main` with its arguments. `jars` is the folder of the jars it uses. `program` is
    the jar with the class, if that folder does not have the class.

    Each start uses the archive of the program's classes if there is one (`archive_classes`).
    """

    def __init__(
        self,
        log: Path,
        main: str,
        arguments: Sequence[object],
        *,
        jars: Path,
        program: Path | None = None,
        options: Sequence[str] = (),
    ) -> None:
        class_path = f"{jars}/*" if program is None else f"{jars}/*:{program}"
        self._command_line = [*options, "-cp", class_path, main, *map(str, arguments)]
        folder = jars.parent if program is None else jars.parent / program.stem
        self._archive = ClassArchive(folder, java(), jars)
        super().__init__(self._command(()), log)

    def start(self) -> None:
        self.command = self._command(self._archive.options)
        super().start()

    def archive_classes(self, work: Callable[[], None]) -> None:
        """Create the archive of the classes that the running program needs until `work` returns,
        once for this computer. The program is killed for this, runs, and ends in order. It runs
        again afterwards."""
        self._archive.make(partial(self._run_once, work))
        if not self.is_running:
            self.start()

    def _run_once(self, work: Callable[[], None], options: Sequence[str]) -> None:
        self.kill()
        self.command = self._command(options)
        super().start()
        work()
        assert self.stop() in ENDED

    def _command(self, options: Sequence[str]) -> list[str]:
        return [java(), *TEST_JVM_OPTIONS, *options, *self._command_line]

"""Work in a thread while a test kills processes."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Background(ABC):
    """Runs `work` in a thread during the context. The end of the context waits for the thread, and
    fails if `work` has raised an exception."""

    def __init__(self) -> None:
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._failure: BaseException | None = None

    @abstractmethod
    def work(self) -> None:
        """Work until `is_over` returns True."""

    def is_over(self, pause_s: float) -> bool:
        """Pause, and return True once the context has ended."""
        return self._ending.wait(pause_s)

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self._failure = error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._thread.join()
        if error is None and self._failure is not None:
            raise self._failure

"""Work in a process of its own, forked as Spark forks its Python workers: it may die or be paused
at a fail point, and what it knew is gone with it."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from oncelog_client.spark.fail_points import EXIT_STATUS

T = TypeVar("T")

_CHUNK: Final = 1 << 16


class Killed(Exception):
    """The process died at a fail point."""


class Forked(Generic[T]):
    """A process that does `work` with `environment` on top of this one's."""

    def __init__(self, work: Callable[[], T], environment: Mapping[str, str]) -> None:
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            # Python 3.12 and newer warn where there are threads: this child takes none over.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid:
            os.close(writing)
            self._reading = reading
            return
        os.close(reading)
        gc.freeze()  # what the tests' process holds is no garbage of this one's
        os.environ.update(environment)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(_outcome(work))
        os._exit(0)

    def result(self) -> T:
        """What the work returned or raised. Raises Killed."""
        with os.fdopen(self._reading, "rb") as pipe:
            said = pipe.read()
        _, status = os.waitpid(self.pid, 0)
        if os.waitstatus_to_exitcode(status) in (EXIT_STATUS, -signal.SIGKILL):
            raise Killed
        is_error, value, trace = pickle.loads(said)
        if is_error:
            value.add_note(trace)
            raise value
        found: T = value
        return found


def _outcome(work: Callable[[], Any]) -> bytes:
    try:
        return pickle.dumps((False, work(), ""))
    except BaseException as error:
        return pickle.dumps((True, error, traceback.format_exc()))


def run(work: Callable[[], T], environment: Mapping[str, str]) -> T:
    """In a process of its own, waiting for it. Raises Killed, or what the work raises."""
    return Forked(work, environment).result()

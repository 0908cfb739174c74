"""Work in a forked process, as Spark forks its Python workers. The process may pause at a fail
point, or die there and lose its memory."""

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
    """A process that runs `work`, with `environment` added to this process's."""

    def __init__(self, work: Callable[[], T], environment: Mapping[str, str]) -> None:
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            # Python 3.12 and newer warn about a fork with threads. The child has only this thread.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid:
            os.close(writing)
            self._reading = reading
            return
        os.close(reading)
        gc.freeze()  # this process does not collect the objects of the test's process
        os.environ.update(environment)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(_outcome(work))
        os._exit(0)

    def result(self) -> T:
        """Return the result of the work, or raise its exception. Raises Killed if the process
        died."""
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
    """Run the work in a forked process and wait. Raises Killed, or the exception of the work."""
    return Forked(work, environment).result()

"""What a Python worker of Spark does at each use, so that small tasks do not wait for it."""

from __future__ import annotations

from collections.abc import Callable

from . import worker_heap, worker_socket


def be_prompt() -> None:
    """Nothing in a process that is no worker of Spark's."""
    worker_socket.acknowledge_at_once()
    worker_heap.settle()


class PromptWorker:
    """Part of what is pickled for a worker: the one that unpickles it is prompt."""

    def __reduce__(self) -> tuple[Callable[[], PromptWorker], tuple[()]]:
        return _arrived, ()


def _arrived() -> PromptWorker:
    be_prompt()
    return PromptWorker()

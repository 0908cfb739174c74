"""Prepares a Python worker of Spark at each use, so that small tasks start without a delay."""

from __future__ import annotations

from collections.abc import Callable

from . import worker_heap, worker_socket


def be_prompt() -> None:
    """Prepare this process; do nothing if it is no worker of Spark."""
    worker_socket.acknowledge_at_once()
    worker_heap.settle()


class PromptWorker:
    """An object to be pickled for a worker: unpickling it calls `be_prompt` there."""

    def __reduce__(self) -> tuple[Callable[[], PromptWorker], tuple[()]]:
        return _arrived, ()


def _arrived() -> PromptWorker:
    be_prompt()
    return PromptWorker()

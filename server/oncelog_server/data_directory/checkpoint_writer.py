"""The writer of a data directory's checkpoints. Its fsyncs never block the event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from oncelog_server.deferred import Deferred, Order
from oncelog_server.log.whole_files import remove_unfinished, write_whole
from oncelog_server.partition.waiting import raise_all
from oncelog_server.slices import Slices, Steps
from oncelog_server.storage.files import Buffer, File, Files, StorageError
from oncelog_server.storage.layout import TEMPORARY_SUFFIX


class CheckpointWriter:
    """Writes the checkpoints. All calls of `write` during a write share the write that follows.

    `collect` returns the content of the files (path -> bytes), in slices, when a write begins.
    """

    def __init__(
        self, files: Files, collect: Callable[[], Steps[Mapping[str, Buffer]]], slices: Slices
    ) -> None:
        self._files = files
        self._collect = collect
        self._slices = slices
        self._waiting: list[Deferred[StorageError | None]] = []
        self._served: list[Deferred[StorageError | None]] = []
        self._writing: dict[str, File] | None = None
        # The checkpoints that may have a temporary file on the disk. A write replaces only the
        # temporary files of its own checkpoints, so it removes all others at its end.
        self._unfinished: set[str] = set()

    def remove_later(self, unfinished: Iterable[str]) -> None:
        """Remove the temporary files of these checkpoints after the next write. `unfinished`: the
        paths of the checkpoints, without the suffix of temporary files."""
        self._unfinished.update(unfinished)

    def write(self) -> Deferred[StorageError | None]:
        """Return a Deferred that completes with None when the present state is durable.

        It completes with the error if a write failed. The old checkpoints then stay, and the next
        start has more bytes to scan (scenario D4). The Deferred is `ordered`, because the caller's
        request has already taken effect. Each caller has its own Deferred, and may cancel it.
        """
        deferred: Deferred[StorageError | None] = Deferred(order=Order.ORDERED)
        self._waiting.append(deferred)
        if self._writing is None:
            self._begin()
        return deferred

    def _begin(self) -> None:
        self._served, self._waiting = self._waiting, []
        self._writing = {}
        try:
            collected = self._slices.run(self._collect())
        except Exception:
            self._end(Deferred.abandon)
            raise
        if isinstance(collected, Deferred):
            collected.on_complete(self._collected)
            collected.on_abandon(lambda: self._end(Deferred.abandon))
        else:
            self._collected(collected)

    def _collected(self, contents: Mapping[str, Buffer]) -> None:
        assert self._writing is not None
        try:
            for path, data in contents.items():
                temporary = path + TEMPORARY_SUFFIX
                self._unfinished.add(path)
                write_whole(self._files, temporary, bytes(data))
                self._writing[path] = self._files.open(temporary)
        except StorageError as error:
            self._failed(error)
            return
        except Exception:
            self._end(Deferred.abandon)
            raise
        self._files.sync(list(self._writing.values()), self._synced)

    def _synced(self, error: StorageError | None) -> None:
        """Rename the files and sync their names, after their bytes are durable."""
        if error is not None:
            self._failed(error)
            return
        assert self._writing is not None
        try:
            for path, file in self._writing.items():
                self._files.rename(file.path, path)
                file.renamed(path)
        except StorageError as refused:
            self._failed(refused)
            return
        self._files.sync(list(self._writing.values()), self._named)

    def _named(self, error: StorageError | None) -> None:
        if error is not None:
            self._failed(error)
        else:
            self._remove_unfinished()
            self._end(_complete)

    def _remove_unfinished(self) -> None:
        for path in sorted(self._unfinished):
            # If the disk refuses, the path stays in the set, and the next write tries again.
            with suppress(StorageError):
                remove_unfinished(self._files, path)
                self._unfinished.discard(path)

    def _failed(self, error: StorageError) -> None:
        for path, file in (self._writing or {}).items():
            if file.path != path:
                with suppress(StorageError):  # a full disk needs the space
                    file.truncate(0)
        self._end(lambda deferred: deferred.complete(error))

    def _end(self, complete: Callable[[Deferred[StorageError | None]], None]) -> None:
        for file in (self._writing or {}).values():
            file.close()
        self._writing = None
        served, self._served = self._served, []
        raised: list[Exception] = []
        for deferred in served:
            try:
                complete(deferred)
            except Exception as failure:  # the other Deferreds must still be completed
                raised.append(failure)
        if self._waiting and self._writing is None:
            self._begin()
        raise_all(raised)


def _complete(deferred: Deferred[StorageError | None]) -> None:
    deferred.complete(None)

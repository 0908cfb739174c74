"""`in_turns` begins a limited number of pieces of disk work at a time, and reports a single end."""

from __future__ import annotations

from oncelog_server.storage.files import Done, StorageError
from oncelog_server.storage.turns import in_turns


class Disk:
    """The pieces of work in progress. A test ends them with `end`."""

    def __init__(self, pieces: int, at_once: int) -> None:
        self.begun: list[tuple[int, Done]] = []
        self.outcomes: list[StorageError | None] = []
        in_turns(range(pieces), at_once, self._begin, self.outcomes.append)

    def _begin(self, piece: int, done: Done) -> None:
        self.begun.append((piece, done))

    def end(self, error: StorageError | None = None) -> int:
        """End the piece that began first. Return its number."""
        piece, done = self.begun.pop(0)
        done(error)
        return piece


def test_a_limited_number_of_pieces_runs_at_once_and_the_last_to_end_reports_the_end() -> None:
    disk = Disk(7, at_once=3)
    ended: list[int] = []
    while disk.begun:
        assert len(disk.begun) == min(3, 7 - len(ended))
        assert disk.outcomes == []
        ended.append(disk.end())
    assert ended == list(range(7))
    assert disk.outcomes == [None]


def test_after_an_error_no_piece_begins_and_pieces_in_progress_end_first() -> None:
    disk = Disk(7, at_once=3)
    error = StorageError("sync", "t-0", "Input/output error")
    disk.end(error)
    assert [piece for piece, _ in disk.begun] == [1, 2]
    disk.end(StorageError("sync", "t-1", "Input/output error"))
    assert disk.outcomes == []
    disk.end()
    assert disk.outcomes == [error]

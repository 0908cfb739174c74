"""Generated mutants that no test can find because they behave as the code does, each with the
reason."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.mutants.generic import diff_of
from tests.mutants.mutant import Mutant


class Excused(NamedTuple):
    """`was` and `becomes`: the differing lines, joined by single spaces."""

    file: str
    was: str
    becomes: str
    why: str


_TRANSACTION: Final = "server/oncelog_server/transaction"
_PARTITION: Final = "server/oncelog_server/partition"

EXCUSED: Final = (
    Excused(
        f"{_PARTITION}/refused_sequences.py",
        "MOST_PRODUCERS: Final = 1_000",
        "MOST_PRODUCERS: Final = 1001",
        "a bound on memory: one more is as good",
    ),
    Excused(
        f"{_TRANSACTION}/commands/end_txn.py",
        "if metadata.next_producer_epoch >= 0 and metadata.is_kept:",
        "if (metadata.next_producer_epoch >= 0 or metadata.is_kept):",
        "is_kept says both, and what is not open has no next epoch when it is ended",
    ),
    Excused(
        f"{_TRANSACTION}/groups.py",
        "newest = max(self._newest.get(key.group_id, -1), value.generation_id)",
        "newest = max(self._newest.get(key.group_id, 0), value.generation_id)",
        "a generation below 0 is refused before it comes to a record",
    ),
)


def difference(mutant: Mutant) -> tuple[str, str]:
    """Return the lines before and after, in the form of Excused."""
    lines = diff_of(mutant)
    was, becomes = (
        " ".join(" ".join(line[1:] for line in lines if line.startswith(sign)).split())
        for sign in "-+"
    )
    return was, becomes


def excuse_for(mutant: Mutant) -> str | None:
    """Return why a mutant is excused; None if it is not."""
    was, becomes = difference(mutant)
    found = (excuse.why for excuse in EXCUSED if excuse[:3] == (mutant.file, was, becomes))
    return next(found, None)

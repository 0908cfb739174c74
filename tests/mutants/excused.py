"""Generic mutants that no test can find, as they do what the code does, and why that is so."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.mutants.generic import diff_of
from tests.mutants.mutant import Mutant


class Excused(NamedTuple):
    """`was` and `becomes`: the lines that differ, put together with one space between words."""

    file: str
    was: str
    becomes: str
    why: str


_TRANSACTION: Final = "server/oncelog_server/transaction"
_PARTITION: Final = "server/oncelog_server/partition"

EXCUSED: Final[tuple[Excused, ...]] = ()


def difference(mutant: Mutant) -> tuple[str, str]:
    """The lines as they were and as they are, as in Excused."""
    lines = diff_of(mutant)
    was, becomes = (
        " ".join(" ".join(line[1:] for line in lines if line.startswith(sign)).split())
        for sign in "-+"
    )
    return was, becomes


def excuse_for(mutant: Mutant) -> str | None:
    """Why it is none; None where it is one."""
    was, becomes = difference(mutant)
    found = (one.why for one in EXCUSED if one[:3] == (mutant.file, was, becomes))
    return next(found, None)

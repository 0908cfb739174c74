"""The crash matrix of a cluster: points C0 to C14 x commit and abort x transaction versions 1 and 2
x kill, power loss, pause x the broker that is lost: the coordinator, or the leader of a partition.
The client continues.

In every cell, the next coordinator and leader have everything that was committed and nothing else.
All partitions, the group and the client have the outcome that the client has requested. A newer
instance succeeds and fences the first one. The rules and checks of every cluster hold.
`make nightly` runs all cells, `make test` one in eleven.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import pytest

from tests.examples import COMPARES_ALL
from tests.simulation.cluster.crash_cell import Cell, CrashCell, Fault, Victim
from tests.simulation.cluster.crash_points import POINTS
from tests.simulation.cluster.stage import play

CELLS: Final = [
    Cell(point, committed, version, fault, victim)
    for point in POINTS
    for committed in (True, False)
    for version in (1, 2)
    for fault in Fault
    for victim in Victim
]
# The step has no divisor in common with the numbers of the options, so all of them occur.
STEP: Final = 1 if COMPARES_ALL else 11


@pytest.mark.parametrize("cell", CELLS[::STEP], ids=str)
def test_c0_to_c14_ca_cb_cc_cd_ce_a_transaction_survives_the_loss_of_a_broker(cell: Cell) -> None:
    play(partial(CrashCell, cell=cell))

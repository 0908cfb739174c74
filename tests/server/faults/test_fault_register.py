"""The register gives ids that no other process gives, and its notes outlive the process."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_server.faults import faults as module
from oncelog_server.faults.fault_register import FaultRegister
from oncelog_server.faults.faults import Faults
from oncelog_server.faults.request_rules import UNLIMITED, Failing, RequestRules, Scope


def test_no_two_faults_have_the_same_id_not_even_of_two_processes() -> None:
    registers = [FaultRegister() for _ in range(20)]
    ids = {register.new_id() for register in registers for _ in range(50)}
    assert len(ids) == 1_000


def test_the_notes_of_an_earlier_process_stay(tmp_path: Path) -> None:
    noted = []
    for _ in range(2):
        register = FaultRegister()
        register.note_met("without a file")
        register.keep_in(tmp_path / "met")
        noted += [register.new_id(), register.new_id()]
        for fault_id in noted[-2:]:
            register.note_met(fault_id)
    assert (tmp_path / "met").read_text().splitlines() == noted
    assert stat.S_IMODE((tmp_path / "met").stat().st_mode) == 0o600


@pytest.mark.parametrize("met", [1, 3])
def test_a_rule_is_noted_only_for_its_first_request(tmp_path: Path, met: int) -> None:
    register = FaultRegister()
    register.keep_in(tmp_path / "met")
    rules = RequestRules(register)
    scope = Scope(ApiKey.PRODUCE, None, None)
    rule_id = rules.add(Failing(scope, ErrorCode.NOT_COORDINATOR, UNLIMITED))
    assert (tmp_path / "met").read_text() == ""
    for _ in range(met):
        rules.apply_to(ApiKey.PRODUCE, None, tuple)
    assert (tmp_path / "met").read_text() == f"{rule_id}\n"


def test_the_broker_dies_at_its_fail_point_also_if_this_cannot_be_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[tuple[str, int]] = []
    monkeypatch.setattr(module, "kill_self", lambda name, count: killed.append((name, count)))
    faults = Faults()
    (folder := tmp_path / "data").mkdir()
    faults.register.keep_in(folder / "met")
    shutil.rmtree(folder)
    faults.set_trap("after-data")
    assert faults.trap is not None
    with pytest.raises(FileNotFoundError):
        faults.trap.reached("after-data")
    assert killed == [("after-data", 1)]


def states(faults: Faults) -> tuple[object, ...]:
    return faults.trap and faults.trap.name, faults.sync_delay_ms, faults.full_disk.patterns


@pytest.mark.parametrize("kind", range(3))
def test_a_fault_that_a_later_fault_has_replaced_does_not_end_the_later(kind: int) -> None:
    faults = Faults()
    begin: Callable[[int], str] = [
        lambda number: faults.set_trap(f"after-data:{number}"),
        faults.delay_syncs,
        lambda number: faults.fill_disk((f"t{number}-",)),
    ][kind]
    first, second = begin(1), begin(2)
    state = states(faults)
    faults.end(first)
    assert states(faults) == state != states(Faults())
    faults.end(second)
    assert states(faults) == states(Faults())


def test_the_fail_point_of_the_environment_is_named_until_it_is_replaced_or_ends() -> None:
    faults = Faults.of({"ONCELOG_FAIL_AT": "after-data"})
    assert faults.initial_point == "after-data"
    faults.set_trap("before-data")
    assert faults.initial_point is None
    faults.clear()
    assert (faults.trap, faults.initial_point) == (None, None)

"""The catalogue fits the code: every patch can be applied."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.trial import ROOT

# The mutants that need access rules.
ELSEWHERE = {"M29"}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_patch_can_be_applied_once_and_is_python(mutant: Mutant) -> None:
    ast.parse(mutant.mutated(ROOT))
    assert all((ROOT / path.split("::")[0]).exists() for path in mutant.tests)


def test_every_mutant_that_one_broker_can_have_is_there() -> None:
    names = {mutant.name.rstrip("abc") for mutant in MUTANTS if mutant.name.startswith("M")}
    assert names == {f"M{number}" for number in range(1, 31)} - ELSEWHERE

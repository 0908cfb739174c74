"""Every mutant of the catalogue has a patch that can be applied to the code."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.trial import ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_patch_can_be_applied_once_and_gives_valid_python(mutant: Mutant) -> None:
    ast.parse(mutant.mutated(ROOT))
    assert all((ROOT / path.split("::")[0]).exists() for path in mutant.tests)


def test_the_catalogue_has_m1_to_m30() -> None:
    names = {mutant.name.rstrip("abc") for mutant in MUTANTS if mutant.name.startswith("M")}
    assert names == {f"M{number}" for number in range(1, 31)}

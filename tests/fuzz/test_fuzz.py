"""A small number of inputs for each family of `make fuzz`, and the harness itself."""

from __future__ import annotations

import pytest

from tests.examples import examples
from tests.fuzz.families import ACCEPTED, FAMILIES, REFUSED
from tests.fuzz.fuzzing import Family, Finding, checked, fuzz, input_of

INPUTS = 1_000


@pytest.mark.parametrize("name", FAMILIES)
def test_any_input_is_refused_or_understood(name: str) -> None:
    family = FAMILIES[name]()
    outcomes = fuzz(family, 0, range(examples(INPUTS)))
    # Changes that a parser refuses at once would find little.
    assert len(outcomes) > 1 or name == "sasl", outcomes
    assert outcomes[REFUSED] > 0


@pytest.mark.parametrize("name", ["stores", "jaas", "jwks", "acls"])
def test_the_examples_themselves_are_good(name: str) -> None:
    family = FAMILIES[name]()
    assert {checked(family, data) for data in family.examples} == {ACCEPTED}


def test_a_parser_that_fails_is_found_and_the_input_is_made_again() -> None:
    def check(data: bytes) -> str:
        if b"\xff\xff" in data:
            raise IndexError("out of range")
        return ACCEPTED

    family = Family([b"a good input"], check)
    with pytest.raises(Finding, match="IndexError: out of range") as found:
        fuzz(family, 3, range(10_000))
    finding = found.value
    assert input_of(family, 3, finding.number) == finding.data
    with pytest.raises(Finding):
        checked(family, finding.data)

"""The base of `Settings`: what a class of settings refuses, and when two objects are equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any

import pytest

from oncelog_server.settings.immutable import ImmutableSettings


class Half(ImmutableSettings):
    number: int = 1


class Whole(Half):
    text: str | None = None
    given: Mapping[str, str] = field(default_factory=dict)


def test_a_setting_without_an_argument_has_its_default() -> None:
    whole = Whole(text="given")
    assert (whole.number, whole.text, whole.given) == (1, "given", {})
    assert whole.given is not Whole().given
    assert [column.name for column in fields(Whole)] == ["number", "text", "given"]


def test_an_argument_that_is_no_setting_is_refused() -> None:
    unknown: dict[str, Any] = {"nothing": 1}
    with pytest.raises(TypeError, match="Whole has no field nothing"):
        Whole(**unknown)


@pytest.mark.parametrize("name", ["number", "nothing"])
def test_a_setting_cannot_change(name: str) -> None:
    whole = Whole()
    with pytest.raises(FrozenInstanceError, match=name):
        setattr(whole, name, 2)
    with pytest.raises(FrozenInstanceError, match=name):
        delattr(whole, name)
    assert whole == Whole()


def test_two_objects_are_equal_if_their_class_and_all_settings_are() -> None:
    assert Whole(number=2) == replace(Whole(), number=2) != Whole()
    assert Half() != Whole()
    assert Whole(given={"a": "b"}) != Whole()

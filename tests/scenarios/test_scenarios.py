"""The page of scenarios agrees with the names of the tests. Each row of the page has an id of its
own."""

from __future__ import annotations

from pathlib import Path

from tests.scenarios.coverage import shown_by, tokens
from tests.scenarios.page import open_rows, page
from tests.scenarios.rows import FAMILIES, all_rows

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "scenarios.md"
AGAIN = "python -m tests.scenarios > docs/scenarios.md"


def test_the_page_agrees_with_the_names_of_the_tests() -> None:
    rows = all_rows()
    assert PAGE.read_text(encoding="utf-8") == page(rows, shown_by(rows)), AGAIN


def test_every_scenario_that_one_broker_can_have_is_shown_by_a_test() -> None:
    rows = all_rows()
    assert [row.id for row in open_rows(rows, shown_by(rows))] == []


def test_every_scenario_has_one_name_and_a_family() -> None:
    rows = all_rows()
    assert len({row.token for row in rows}) == len(rows)
    assert {row.family for row in rows} == set(FAMILIES)


def test_ids_are_read_from_the_front_of_a_name() -> None:
    assert tokens("test_l4_l5_the_list_of_s1") == ["l4", "l5"]
    assert tokens("test_c9_to_c11_markers") == ["c9", "c10", "c11"]
    assert tokens("test_r7v1_ca_v2m_mixed") == ["r7v1", "ca", "v2m"]
    assert tokens("test_R12_M19_a_guard") == ["r12"]
    assert tokens("test_a_marker_to_c1") == []

"""A follower continues within the leader's log after OFFSET_OUT_OF_RANGE."""

from __future__ import annotations

import pytest

from oncelog_server.fetcher.bounds import cut_into
from oncelog_server.partition.follower_log import Cut


@pytest.mark.parametrize(
    ("leader", "own_end", "cut"),
    [
        pytest.param((0, 5), 9, Cut(5), id="the leader lacks the end"),
        pytest.param((20, 30), 9, Cut(20, restarts=True), id="the follower was away too long"),
        pytest.param((0, 9), 9, None, id="the leader's log has grown to the follower's end"),
        pytest.param((9, 30), 9, None, id="the leader's log begins at the follower's end"),
        pytest.param((0, 0), 9, Cut(0), id="the leader has nothing"),
        pytest.param((3, 3), 0, Cut(3, restarts=True), id="both have nothing"),
    ],
)
def test_the_cut_brings_the_follower_into_the_leaders_log(
    leader: tuple[int, int], own_end: int, cut: Cut | None
) -> None:
    assert cut_into(*leader, own_end) == cut

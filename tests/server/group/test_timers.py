"""The heap of timers stays exact after any move, cancellation or reset, and its size is bounded by
the number of its keys."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.group.timers import CoordinatorTimer

KEYS = [(name,) for name in "abcde"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from(KEYS), st.integers(0, 50)),
        st.tuples(st.just("cancel"), st.sampled_from(KEYS), st.just(0)),
        st.tuples(st.just("pop"), st.just(KEYS[0]), st.integers(0, 50)),
    )
)


@given(STEPS)
def test_timers_fire_like_a_sorted_list_of_deadlines(
    steps: list[tuple[str, tuple[str, ...], int]],
) -> None:
    timers: CoordinatorTimer[str] = CoordinatorTimer()
    model: dict[tuple[str, ...], tuple[int, str]] = {}
    for number, (step, key, time_ms) in enumerate(steps):
        if step == "set":
            timers.set(key, time_ms, f"{number}")
            model[key] = (time_ms, f"{number}")
        elif step == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        else:
            first = min(((at, name) for name, (at, _) in model.items()), default=None)
            expected = model.pop(first[1])[1] if first and first[0] <= time_ms else None
            assert timers.pop_due(time_ms) == expected
        assert timers.next_timer() == min((at for at, _ in model.values()), default=None)
        assert len(timers) == len(model)
        assert all(timers.deadline_ms(name) == at for name, (at, _) in model.items())


def test_a_deadline_that_is_moved_a_million_times_costs_no_memory() -> None:
    timers: CoordinatorTimer[None] = CoordinatorTimer()
    for now_ms in range(10_000):
        timers.set(("beat",), now_ms + 30_000, None)
        timers.set(("gone", str(now_ms)), now_ms + 1, None)
        timers.cancel(("gone", str(now_ms)))
    assert len(timers._heap) <= 200
    assert timers.next_timer() == 9_999 + 30_000


def test_clear_forgets_everything() -> None:
    timers: CoordinatorTimer[None] = CoordinatorTimer()
    timers.set(("a",), 1, None)
    timers.clear()
    assert timers.next_timer() is None
    assert ("a",) not in timers

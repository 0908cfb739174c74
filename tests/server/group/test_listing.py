"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from oncelog_server.group.classic.states import GroupState
from oncelog_server.group.listing import GroupFilter, views_of
from oncelog_server.views.groups import GroupDetails, MemberView
from tests.server.group.driver import Driver, groups_of
from tests.server.group.entries import subscription


def listed(driver: Driver, *states: str, types: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    wanted = GroupFilter(states, types)
    return [
        (group.group_id, group.state) for group in views_of(driver.shard.table) if wanted.has(group)
    ]


def deleted(driver: Driver, *groups: str) -> list[tuple[str, int]]:
    results = driver.delete(*groups).value
    return [(result.group_id, result.error_code) for result in results]


def test_groups_are_listed_by_state_and_type_in_any_case() -> None:
    driver = Driver()
    driver.stable_group("a", group="stable")
    driver.commit(("t", 0, 1), group="simple")
    everything = [("stable", "Stable"), ("simple", "Empty")]
    assert listed(driver) == everything
    assert listed(driver, "stable") == everything[:1]
    assert listed(driver, " EMPTY ", "stable") == everything
    assert listed(driver, "Dead") == []
    assert listed(driver, types=("Classic",)) == everything
    assert listed(driver, types=("consumer",)) == []
    assert listed(driver, types=("consumer", "classic")) == everything


def test_a_listed_group_has_its_type() -> None:
    driver = Driver()
    driver.stable_group("a")
    (group,) = views_of(driver.shard.table)
    assert (group.protocol_type, group.type) == ("consumer", "classic")


def test_a_row_shows_the_moment_at_which_it_is_read() -> None:
    """The coordinator reads a long list in slices. A group that is deleted or created between two
    slices is not in the list, and each row has the group's state at the moment of its slice."""
    driver = Driver()
    for name in ("first", "deleted", "later"):
        driver.commit(("t", 0, 1), group=name)
    views = views_of(driver.shard.table)
    assert next(views).group_id == "first"
    driver.delete("deleted")
    driver.commit(("t", 0, 1), group="new")
    driver.stable_group("a", group="later")
    assert [(view.group_id, view.state) for view in views] == [("later", "Stable")]


def test_a_stable_group_is_shown_with_its_members() -> None:
    driver = Driver()
    metadata = subscription("t")
    _, (first, second) = driver.stable_group("a", "b", protocols={"range": metadata})
    assert driver.run(driver.shard.describe_group("g")).value == GroupDetails(
        "g",
        "Stable",
        "consumer",
        "range",
        (
            MemberView(first, None, "a", "/127.0.0.1", metadata, first.encode()),
            MemberView(second, None, "b", "/127.0.0.1", metadata, second.encode()),
        ),
    )


def test_a_static_member_is_shown_with_its_instance_id() -> None:
    driver = Driver()
    driver.join(instance="i")
    described = driver.run(driver.shard.describe_group("g")).value
    assert described is not None
    assert [member.group_instance_id for member in described.members] == ["i"]


def test_an_unknown_group_is_not_shown() -> None:
    driver = Driver()
    assert driver.run(driver.shard.describe_group("x")).value is None


def test_groups_are_deleted_with_their_offsets_and_each_has_its_code() -> None:
    driver = Driver()
    driver.commit(("t", 0, 1), ("u", 0, 1), group="empty")
    driver.stable_group("a", group="stable")
    assert deleted(driver, "empty", "stable", "unknown", "empty") == [
        ("empty", 0),
        ("stable", 68),
        ("unknown", 69),
    ]
    assert driver.fetch("t", 0, group="empty") == (-1, 0)
    assert driver.state("empty") is GroupState.DEAD
    loaded = driver.load()
    assert list(loaded.table.groups) == ["stable"]
    assert loaded.table.offsets.groups() == []


def test_a_deletion_that_cannot_be_written_deletes_nothing() -> None:
    driver = Driver()
    driver.commit(("t", 0, 1), group="empty")
    driver.append_error = 19
    assert deleted(driver, "empty", "unknown") == [("empty", 15), ("unknown", 69)]
    assert driver.fetch("t", 0, group="empty") == (1, 0)


def test_a_deleted_group_may_begin_again() -> None:
    driver = Driver()
    _, (member,) = driver.stable_group("a")
    driver.leave(member)
    assert deleted(driver, "g") == [("g", 0)]
    generation_id, _ = driver.stable_group("a")
    assert generation_id == 1
    assert groups_of(driver.load())["g"].generation_id == 1

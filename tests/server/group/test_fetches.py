"""OffsetFetch: the offsets of each group, and the form of the request in each version."""

from __future__ import annotations

import pytest

from oncelog_protocol.codecs import encode
from oncelog_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from oncelog_server.group.fetches import groups_asked_for, offset_fetch_response, refused_group
from oncelog_server.slices import SMALL, at_its_end
from tests.server.between_steps import Calls
from tests.server.group.driver import GROUP, Driver

TOPIC_ID = b"\1" * 16


def asked(version: int, *, everything: bool = False) -> OffsetFetchRequest:
    """Return a request for partitions 0 and 1 of topic t, or for all partitions."""
    if version < 8:
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
        return OffsetFetchRequest(group_id=GROUP, topics=None if everything else topics)
    names = [OffsetFetchRequestTopics(name="t", topic_id=TOPIC_ID, partition_indexes=[0, 1])]
    group = OffsetFetchRequestGroup(group_id=GROUP, topics=None if everything else names)
    return OffsetFetchRequest(groups=[group])


def fetch(driver: Driver, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    """Return the handler's response to `request`, made from the results of the shard."""
    groups = [
        driver.run(driver.shard.offset_fetch(group, require_stable=request.require_stable)).value
        for group in groups_asked_for(request, version)
    ]
    response = at_its_end(offset_fetch_response(request, version, groups))
    assert encode(response, version)
    return response


def shown(response: OffsetFetchResponse, version: int) -> list[tuple[int, int, str | None, int]]:
    """Return (partition, offset, metadata, error code) of each partition in the response."""
    if version < 8:
        return [
            (found.partition_index, found.committed_offset, found.metadata, found.error_code)
            for topic in response.topics
            for found in topic.partitions
        ]
    return [
        (found.partition_index, found.committed_offset, found.metadata, found.error_code)
        for group in response.groups
        for topic in group.topics
        for found in topic.partitions
    ]


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_are_in_the_response_in_every_version(version: int) -> None:
    driver = Driver()
    driver.commit(("t", 0, 5), metadata="m")
    response = fetch(driver, asked(version), version)
    assert shown(response, version) == [(0, 5, "m", 0), (1, -1, "", 0)]
    if version >= 10:
        assert response.groups[0].topics[0].topic_id == TOPIC_ID


@pytest.mark.parametrize("version", range(2, 11))
def test_a_request_without_topics_gets_all_offsets_of_a_group(version: int) -> None:
    driver = Driver()
    driver.commit(("t", 0, 5), ("u", 3, 6))
    response = fetch(driver, asked(version, everything=True), version)
    assert shown(response, version) == [(0, 5, "", 0), (3, 6, "", 0)]


@pytest.mark.parametrize("version", range(1, 11))
def test_an_unknown_group_has_no_offsets_and_no_error(version: int) -> None:
    response = fetch(Driver(), asked(version), version)
    assert shown(response, version) == [(0, -1, "", 0), (1, -1, "", 0)]
    assert response.error_code == 0


@pytest.mark.parametrize("version", range(1, 11))
def test_a_group_of_another_coordinator_is_refused_in_the_field_of_the_version(
    version: int,
) -> None:
    request = asked(version)
    groups = [refused_group(group, 16) for group in groups_asked_for(request, version)]
    response = at_its_end(offset_fetch_response(request, version, groups))
    assert encode(response, version)
    if version == 1:
        assert shown(response, version) == [(0, -1, "", 16), (1, -1, "", 16)]
    elif version < 8:
        assert (response.error_code, response.topics) == (16, [])
    else:
        assert [(group.group_id, group.error_code) for group in response.groups] == [(GROUP, 16)]


def test_groups_are_in_the_response_in_the_order_of_the_request() -> None:
    driver = Driver()
    driver.commit(("t", 0, 1), group="a")
    driver.commit(("t", 0, 2), group="b")
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id=name, member_id="m", member_epoch=3, topics=None)
            for name in ("b", "a")
        ]
    )
    response = fetch(driver, request, 9)
    assert [group.group_id for group in response.groups] == ["b", "a"]
    assert shown(response, 9) == [(0, 2, "", 0), (0, 1, "", 0)]


def test_unstable_partitions_have_their_own_error() -> None:
    driver = Driver()
    driver.commit(("t", 0, 5), ("t", 1, 5))
    driver.txn_commit(7, ("t", 1, 9))
    request = asked(8)
    request.require_stable = True
    assert shown(fetch(driver, request, 8), 8) == [(0, 5, "", 0), (1, -1, "", 88)]
    request = asked(8, everything=True)
    request.require_stable = True
    assert shown(fetch(driver, request, 8), 8) == [(0, 5, "", 0), (1, -1, "", 88)]


def test_a_response_about_very_many_partitions_is_made_in_steps() -> None:
    """A response about 5,000 partitions, made in one step, took 15 ms of the event loop."""
    rows = [OffsetFetchResponsePartitions(number, 7, metadata="") for number in range(3 * SMALL)]
    group = OffsetFetchResponseGroup(
        group_id=GROUP, topics=[OffsetFetchResponseTopics(name="wide", partitions=rows)]
    )
    calls = Calls()
    steps = offset_fetch_response(OffsetFetchRequest(GROUP), 7, [group])
    made: OffsetFetchResponse = at_its_end(calls.counted(steps))
    assert [partition.partition_index for partition in made.topics[0].partitions] == [
        *range(3 * SMALL)
    ]
    assert calls.steps > len(rows)
    assert calls.most < SMALL

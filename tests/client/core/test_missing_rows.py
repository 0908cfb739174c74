"""The rows (of keys, groups, partitions or members) that a response must have, because the request
names them. `tests/client/test_missing_rows.py` shows what the clients do if rows are missing."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_client.core.missing_rows import missing_rows
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog_protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from oncelog_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
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

ONE_GROUP = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
SEVERAL_GROUPS = [
    OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    )
]


@pytest.mark.parametrize(
    ("api", "version", "request_", "response", "before", "missing"),
    [
        (
            ApiKey.FIND_COORDINATOR,
            4,
            FindCoordinatorRequest(coordinator_keys=["x"]),
            FindCoordinatorResponse(),
            [],
            ["x"],
        ),
        (
            ApiKey.OFFSET_FETCH,
            8,
            OffsetFetchRequest(topics=ONE_GROUP, groups=SEVERAL_GROUPS),
            OffsetFetchResponse(),
            ["t-0"],
            ["g", "g-t-0"],
        ),
        (
            ApiKey.LEAVE_GROUP,
            3,
            LeaveGroupRequest(members=[MemberIdentity(member_id="m")]),
            LeaveGroupResponse(),
            [],
            ["m"],
        ),
        (ApiKey.END_TXN, 5, EndTxnRequest(), EndTxnResponse(), [], ["the producer id"]),
    ],
    ids=lambda value: value.name if isinstance(value, ApiKey) else "",
)
def test_rows_are_required_from_the_version_that_introduced_them(
    api: ApiKey, version: int, request_: Any, response: Any, before: list[str], missing: list[str]
) -> None:
    assert missing_rows(api, request_, response, version - 1) == before
    assert missing_rows(api, request_, response, version) == missing


def test_an_error_response_has_no_missing_rows() -> None:
    refused = EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)
    assert missing_rows(ApiKey.END_TXN, EndTxnRequest(), refused, 5) == []


def test_a_response_with_producer_id_0_has_no_missing_rows() -> None:
    response = EndTxnResponse(producer_id=0, producer_epoch=1)
    assert missing_rows(ApiKey.END_TXN, EndTxnRequest(), response, 5) == []


def test_offsets_may_be_missing_in_a_group_without_an_error_but_not_in_a_refused_group() -> None:
    wanted = [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=name, topics=wanted) for name in ("g", "refused")]
    )
    found = [
        OffsetFetchResponseTopics(
            name="t", partitions=[OffsetFetchResponsePartitions(partition_index=1)]
        )
    ]
    response = OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(group_id="g", topics=found),
            OffsetFetchResponseGroup(
                group_id="refused", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
            ),
        ]
    )
    assert missing_rows(ApiKey.OFFSET_FETCH, request, response, 9) == ["g-t-0"]

"""Each version of an API gets only error codes that it knows (KIP-588, KIP-890)."""

from __future__ import annotations

import pytest

from oncelog_protocol.apis import APIS, ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.error_versions import KNOWN_SINCE, code_for_version

INIT, ADD, OFFSETS, END, PRODUCE, COMMIT = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.PRODUCE,
    ApiKey.TXN_OFFSET_COMMIT,
)
# API, code of the refusal, first version that gets this code (None: no version), code that older
# versions get.
ROWS = [
    (INIT, ErrorCode.PRODUCER_FENCED, 4, 47),
    (ADD, ErrorCode.PRODUCER_FENCED, 2, 47),
    (OFFSETS, ErrorCode.PRODUCER_FENCED, 2, 47),
    (END, ErrorCode.PRODUCER_FENCED, 2, 47),
    (PRODUCE, ErrorCode.PRODUCER_FENCED, None, 47),
    (COMMIT, ErrorCode.PRODUCER_FENCED, None, 47),
    (PRODUCE, ErrorCode.TRANSACTION_ABORTABLE, 11, 48),
    (COMMIT, ErrorCode.TRANSACTION_ABORTABLE, 4, 48),
]
CELLS = [
    pytest.param(api, version, code, code if since is not None and version >= since else older,
                 id=f"{api.name} v{version} {code.name}")
    for api, code, since, older in ROWS
    for version in range(APIS[api].oldest, APIS[api].latest + 1)
]  # fmt: skip


@pytest.mark.parametrize(("api", "version", "code", "expected"), CELLS)
def test_a_version_gets_a_code_that_it_knows(
    api: ApiKey, version: int, code: ErrorCode, expected: int
) -> None:
    assert code_for_version(api, version, code) == expected


def test_each_row_of_the_table_is_tested() -> None:
    assert {(api, code) for api, code, _, _ in ROWS} == set(KNOWN_SINCE)


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS])
def test_every_other_code_is_sent_as_it_is(code: ErrorCode) -> None:
    assert code_for_version(END, 0, code) is code

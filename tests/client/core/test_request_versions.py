"""A request needs a version that has its fields. In versions before KIP-890 part 2, the client must
add partitions and groups to a transaction itself."""

from __future__ import annotations

import pytest

from oncelog_client.core.request_versions import ANY_VERSION, explicit_versions, versions_with
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog_protocol.messages.list_offsets import ListOffsetsRequest
from oncelog_protocol.messages.list_transactions import ListTransactionsRequest
from oncelog_protocol.messages.offset_fetch import OffsetFetchRequest
from oncelog_protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


@pytest.mark.parametrize(
    ("request_type", "field", "oldest"),
    [
        (TxnOffsetCommitRequest, "member_id", 3),
        (InitProducerIdRequest, "enable_2pc", 6),
        (OffsetFetchRequest, "require_stable", 7),
        (ListOffsetsRequest, "isolation_level", 2),
        (ListTransactionsRequest, "duration_filter", 1),
        (ListTransactionsRequest, "transactional_id_pattern", 2),
    ],
)
def test_a_field_needs_the_version_in_which_kafka_added_it(
    request_type: type, field: str, oldest: int
) -> None:
    assert versions_with(request_type, field) == range(oldest, ANY_VERSION.stop)


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(KeyError):
        versions_with(OffsetFetchRequest, "no_such_field")


def test_before_kip_890_part_2_the_client_itself_adds_partitions_and_groups() -> None:
    assert explicit_versions(ApiKey.PRODUCE) == range(12)
    assert explicit_versions(ApiKey.TXN_OFFSET_COMMIT) == range(5)
    assert explicit_versions(ApiKey.END_TXN) == range(5)
    assert explicit_versions(ApiKey.ADD_PARTITIONS_TO_TXN) == ANY_VERSION

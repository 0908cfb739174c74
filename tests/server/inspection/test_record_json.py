"""The JSON of internal records has the field names of Kafka's converters, and on request the fields
that only oncelog has."""

from __future__ import annotations

import pytest

from oncelog_protocol.internal.transaction_log import decode_transaction_log_value
from oncelog_server.inspection.record_json import to_json
from oncelog_server.transaction.metadata import TransactionMetadata, to_record


@pytest.mark.parametrize("with_own", [False, True])
def test_a_transaction_has_kafkas_field_names_and_on_request_those_of_oncelog(
    with_own: bool,
) -> None:
    metadata = TransactionMetadata("t", 7, 3, 1_000, previous_producer_id=6, last_producer_epoch=2)
    value = to_record(metadata).value
    assert value is not None
    found = to_json(decode_transaction_log_value(value), 1, with_own=with_own)
    assert (found["producerId"], found["transactionTimeoutMs"]) == (7, 1_000)
    assert found["previousProducerId"] == 6
    assert "nextProducerId" not in found
    assert ("lastProducerEpoch" in found) is with_own

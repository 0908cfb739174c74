"""The JSON of internal records has the field names of Kafka's converters, and on request the fields
that only oncelog has."""

from __future__ import annotations

import json

import pytest

from oncelog_protocol.internal.transaction_log import decode_transaction_log_value
from oncelog_protocol.records.record import Record
from oncelog_server.inspection.record_json import to_json, transactions_decoder
from oncelog_server.transaction.metadata import TransactionMetadata, to_record
from oncelog_server.transaction.pointers import to_record as to_pointer


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


@pytest.mark.parametrize("with_own", [False, True])
def test_the_pointer_of_an_id_to_its_group_is_shown_as_one_of_our_own_records(
    with_own: bool,
) -> None:
    key, value = to_pointer("t", "g", 7)
    decoded = transactions_decoder(with_own=with_own)(Record(3, 0, key, value))
    if with_own:
        assert decoded.key is not None
        assert decoded.value is not None
        assert json.loads(decoded.key)["data"] == {"transactionalId": "t"}
        assert json.loads(decoded.value)["data"] == {"groupId": "g", "atMs": 7}
    else:
        assert decoded.key == "Unknown record type 10001 at offset 3, skipping."

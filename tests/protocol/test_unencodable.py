"""A value that has no encoding raises an error that names the API and the field."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntryData,
    OpData,
)
from oncelog_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from oncelog_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from oncelog_protocol.messages.end_txn import EndTxnRequest
from oncelog_protocol.messages.fetch import FetchRequest
from oncelog_protocol.requests import Requests
from oncelog_protocol.unencodable import unencodable


def topics(**fields: Any) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(**{"name": "orders", **fields})])


def anything(value: Any) -> Any:
    return value


@pytest.mark.parametrize(
    ("request_", "version", "error", "said"),
    [
        (topics(name=None), 7, TypeError, r"CreateTopics: topics\[0\]\.name is NoneType, not str"),
        (topics(num_partitions="3"), 7, TypeError, r"topics\[0\]\.num_partitions is str, not int"),
        (topics(num_partitions=1 << 31), 7, ValueError, r"num_partitions is 2147483648, which is"),
        (topics(name="\ud800"), 7, ValueError, r"topics\[0\]\.name cannot be encoded"),
        (
            topics(configs=[CreatableTopicConfig("retention.ms", anything(5))]),
            7,
            TypeError,
            r"topics\[0\]\.configs\[0\]\.value is int, not str",
        ),
        (topics(configs=None), 7, TypeError, r"topics\[0\]\.configs is NoneType, not list"),
        (
            CreateTopicsRequest(topics=anything(["orders"])),
            7,
            TypeError,
            r"topics\[0\] is str, not CreatableTopic",
        ),
        (FetchRequest(rack_id="\ud800"), 12, ValueError, "Fetch: rack_id cannot be encoded"),
        (
            AlterClientQuotasRequest([EntryData(ops=[OpData("rate", anything("fast"))])]),
            1,
            TypeError,
            r"entries\[0\]\.ops\[0\]\.value is str, not float",
        ),
    ],
)
def test_the_error_names_api_and_field(
    request_: Any, version: int, error: type[Exception], said: str
) -> None:
    requests = Requests("me")
    with pytest.raises(error, match=said):
        requests.send(request_, version)
    assert len(requests) == 0
    correlation_id, _ = requests.send(EndTxnRequest(), 5)
    assert correlation_id == 0, "the failed request has not taken a correlation id"


def test_the_value_of_a_secret_field_is_not_shown() -> None:
    secret = ScramCredentialUpsertion(name="ann", salt=anything("open sesame"))
    error = unencodable(AlterUserScramCredentialsRequest(upsertions=[secret]), 0)
    assert str(error) == "upsertions[0].salt is str, not bytes"


def test_a_message_that_can_be_encoded_has_no_such_field() -> None:
    assert unencodable(topics(configs=[CreatableTopicConfig("a", None)]), 7) is None

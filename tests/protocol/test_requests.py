"""Requests and responses are paired in order, and any other response is refused."""

from __future__ import annotations

import pytest

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.codecs import decode, encode
from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_protocol.frames import FrameReader, frame
from oncelog_protocol.headers import read_request_header, response_header
from oncelog_protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from oncelog_protocol.messages.coordinator_call import (
    CoordinatorCall,
    CoordinatorCallRequest,
    CoordinatorCallResponse,
    CoordinatorCallResult,
    Operation,
)
from oncelog_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataResponse
from oncelog_protocol.messages.produce import ProduceRequest
from oncelog_protocol.requests import Requests


def answer(key: int, version: int, correlation_id: int, message: object) -> bytes:
    head = response_header(key, version, correlation_id)
    return b"".join(frame([head, encode(message, version)]))


def test_a_request_is_a_frame_with_the_header_its_version_demands() -> None:
    requests = Requests("me")
    correlation_id, parts = requests.send(EndTxnRequest(transactional_id="t", committed=True), 5)
    (body,) = FrameReader().receive_data(b"".join(parts))
    header, position = read_request_header(body)
    assert (header.api_key, header.api_version) == (ApiKey.END_TXN, 5)
    assert (header.correlation_id, header.client_id) == (correlation_id, "me")
    assert decode(EndTxnRequest, 5, body[position:]).committed


def test_responses_are_matched_with_their_requests_in_order() -> None:
    requests = Requests(None)
    first, _ = requests.send(MetadataRequest(), 12)
    second, _ = requests.send(EndTxnRequest(), 3)
    assert len(requests) == 2
    raw = answer(ApiKey.METADATA, 12, first, MetadataResponse(controller_id=3))
    raw += answer(ApiKey.END_TXN, 3, second, EndTxnResponse(error_code=47))
    metadata, end = [a for byte in raw for a in requests.receive_data(bytes([byte]))]
    assert (metadata.correlation_id, metadata.message.controller_id) == (first, 3)
    assert (end.correlation_id, end.api.key, end.version) == (second, ApiKey.END_TXN, 3)
    assert end.message == EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH)
    assert len(requests) == 0


def call(requests: Requests) -> int:
    request = CoordinatorCallRequest(CoordinatorCall(Operation.LOCATE, "t", "g"))
    return requests.send(request, 0)[0]


def called(correlation_id: int) -> bytes:
    response = CoordinatorCallResponse(
        result=CoordinatorCallResult(coordinator_epoch=correlation_id)
    )
    return answer(ApiKey.COORDINATOR_CALL, 0, correlation_id, response)


def test_responses_to_calls_between_brokers_come_in_any_order() -> None:
    requests = Requests(None)
    sent = [call(requests) for _ in range(4)]
    found = list(requests.receive_data(b"".join(called(sent[at]) for at in (2, 0, 3, 1))))
    assert [a.correlation_id for a in found] == [sent[at] for at in (2, 0, 3, 1)]
    assert all(a.message.result.coordinator_epoch == a.correlation_id for a in found)
    assert len(requests) == 0


@pytest.mark.parametrize("first", ["call", "metadata"])
def test_no_other_response_comes_out_of_order(first: str) -> None:
    requests = Requests(None)
    if first == "call":
        call(requests)
        later, _ = requests.send(MetadataRequest(), 12)
        raw = answer(ApiKey.METADATA, 12, later, MetadataResponse())
    else:
        requests.send(MetadataRequest(), 12)
        raw = called(call(requests))
    with pytest.raises(ProtocolError, match="expected"):
        list(requests.receive_data(raw))


def test_a_second_response_to_a_call_is_refused() -> None:
    requests = Requests(None)
    _, second = call(requests), call(requests)
    list(requests.receive_data(called(second)))
    with pytest.raises(ProtocolError, match="expected"):
        list(requests.receive_data(called(second)))


def test_a_request_without_a_response_is_not_waited_for() -> None:
    requests = Requests("c")
    requests.send(ProduceRequest(acks=0), 9, answered=False)
    second, _ = requests.send(EndTxnRequest(), 3)
    assert len(requests) == 1
    raw = answer(ApiKey.END_TXN, 3, second, EndTxnResponse())
    assert [a.correlation_id for a in requests.receive_data(raw)] == [second]


def test_a_response_to_another_request_or_to_none_is_refused() -> None:
    requests = Requests("c")
    raw = answer(ApiKey.END_TXN, 3, 0, EndTxnResponse())
    with pytest.raises(ProtocolError, match="without a request"):
        list(requests.receive_data(raw))
    requests.send(EndTxnRequest(), 3)
    with pytest.raises(ProtocolError, match="expected 0"):
        list(requests.receive_data(answer(ApiKey.END_TXN, 3, 1, EndTxnResponse())))


def test_a_response_that_cannot_be_decoded_is_refused() -> None:
    requests = Requests("c")
    requests.send(EndTxnRequest(), 3)
    with pytest.raises(ProtocolError, match="after the message"):
        list(requests.receive_data(b"\0\0\0\x0e" + bytes(14)))


def test_a_broker_without_this_version_of_api_versions_responds_in_version_0() -> None:
    requests = Requests("c")
    sent, _ = requests.send(ApiVersionsRequest(), 4)
    refusal = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ApiVersion(18, 0, 3)]
    )
    raw = b"".join(frame([response_header(18, 0, sent), encode(refusal, 0)]))
    (got,) = requests.receive_data(raw)
    assert got.message == refusal


def test_abandoned_requests_are_named() -> None:
    requests = Requests("c")
    ids = [requests.send(EndTxnRequest(), 3)[0] for _ in range(3)]
    assert [lost.correlation_id for lost in requests.abandon()] == ids
    assert len(requests) == 0

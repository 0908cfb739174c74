"""The sliced decoder and encoder of large messages work in steps. Their results equal those of the
ordinary codecs."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import pytest

from oncelog_protocol.apis import APIS, Api
from oncelog_protocol.codecs import decode, decoder, encode, sliced_decoder, sliced_encoder
from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

T = TypeVar("T")


def at_its_end(steps: Generator[None, None, T]) -> tuple[T, int]:
    """Run the steps. Return their result and their number."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value, count
        count += 1


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.request.__name__)
def test_every_empty_message_is_the_same_in_slices(api: Api) -> None:
    for version in api.versions:
        for cls in (api.request, api.response):
            message = decode_or_none(cls, version)
            if message is None:
                continue
            parts: list[Any] = []
            at_its_end(sliced_encoder(cls, version)(message, parts.append))
            data = encode(message, version)
            assert b"".join(map(bytes, parts)) == data
            (found, position), _ = at_its_end(sliced_decoder(cls, version)(data, 0))
            assert (found, position) == decoder(cls, version)(data, 0)


def decode_or_none(cls: type[Any], version: int) -> Any:
    try:
        message = cls()
        encode(message, version)
    except (TypeError, AttributeError):
        return None
    return message


def configs(count: int) -> list[DescribeConfigsResourceResult]:
    return [DescribeConfigsResourceResult(f"name{number}", f"{number}") for number in range(count)]


@pytest.mark.parametrize("version", [1, 4])
def test_a_list_that_follows_itself_is_encoded_once(version: int) -> None:
    shared, another = configs(50), configs(3)
    lists = [shared, shared, another, shared, shared, []]
    results = [
        DescribeConfigsResult(0, None, 2, f"topic{at}", list) for at, list in enumerate(lists)
    ]
    message = DescribeConfigsResponse(results=results)
    parts: list[bytes] = []
    _, steps = at_its_end(sliced_encoder(DescribeConfigsResponse, version)(message, parts.append))
    assert b"".join(parts) == encode(message, version)
    assert decode(DescribeConfigsResponse, version, b"".join(parts)) == message
    assert 50 + 3 + 50 <= steps < 50 * 4, (
        "the encoder takes steps again for a list that it has just encoded"
    )


def test_decoding_stops_between_elements() -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=str(number)) for number in range(300)]
    )
    data = encode(request, 9)
    (found, _), steps = at_its_end(sliced_decoder(MetadataRequest, 9)(data, 0))
    assert found == request
    assert steps >= 300


def test_undecodable_bytes_are_refused_in_slices_too() -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=str(number)) for number in range(300)]
    )
    data = encode(request, 9)
    with pytest.raises(ProtocolError):
        at_its_end(sliced_decoder(MetadataRequest, 9)(data[:-40], 0))
    with pytest.raises(ProtocolError):
        at_its_end(sliced_decoder(MetadataRequest, 9)(data, 0, 299))

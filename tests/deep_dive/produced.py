"""The batches that producers sent through the proxy, with the offsets in the broker's responses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from oncelog.testing.proxy import Direction, Frame
from oncelog.testing.proxy.frame import message
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.records.batch import read_header
from tests.deep_dive.on_disk import Batch, Place

Names = Mapping[bytes, str]


def acknowledged(frames: Iterable[Frame], names: Names) -> Iterator[tuple[Frame, Batch, int]]:
    """Yield every successful batch: the response, the batch's identity, and its offset. `names`:
    topics by id."""
    requests: dict[tuple[int, int], Frame] = {}
    for frame in frames:
        if frame.api is not ApiKey.PRODUCE:
            continue
        if frame.direction is Direction.REQUEST:
            requests[frame.connection, frame.correlation_id] = frame
            continue
        request = requests.get((frame.connection, frame.correlation_id))
        if request is not None:
            yield from _acknowledged(request, frame, names)


def _acknowledged(
    request: Frame, answer: Frame, names: Names
) -> Iterator[tuple[Frame, Batch, int]]:
    offsets = {
        Place(
            topic.name or names[topic.topic_id], partition_response.index
        ): partition_response.base_offset
        for topic in message(answer).responses
        for partition_response in topic.partition_responses
        if partition_response.error_code == ErrorCode.NONE
    }
    for batch in sent(request, names):
        if batch.place in offsets:
            yield answer, batch, offsets[batch.place]


def sent(request: Frame, names: Names) -> Iterator[Batch]:
    """Yield the batches of one Produce."""
    for topic in message(request).topic_data:
        for data in topic.partition_data:
            place = Place(topic.name or names[topic.topic_id], data.index)
            header = read_header(data.records)
            yield Batch(place, header.producer_id, header.producer_epoch, header.base_sequence)

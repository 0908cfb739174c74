"""The links to other brokers: closed when a broker leaves the cluster, and no response is used
without a check of the authority."""

from __future__ import annotations

import asyncio
from typing import cast

from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_server.broker import Broker
from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import BrokerImage, ClusterImage
from oncelog_server.cluster.records import EndpointRecord
from oncelog_server.links.markers import RemoteLeader
from oncelog_server.links.other_brokers import OtherBrokers
from tests.server.links.test_markers import TOPIC, work

DEADLINE_S = 60


def image_with(*broker_ids: int) -> ClusterImage:
    endpoint = EndpointRecord("PLAINTEXT", "127.0.0.1", 1)
    brokers = {
        broker_id: BrokerImage(broker_id, 5, "incarnation", (endpoint,), None, {})
        for broker_id in broker_ids
    }
    return ClusterImage(brokers=brokers)


async def test_requests_to_a_broker_that_has_left_end_at_once() -> None:
    """Otherwise the requests would wait for their timeout of 30 s."""
    images = [image_with(1, 2), image_with(1)]
    others = OtherBrokers(1, lambda: images[0], "PLAINTEXT", None)
    leader = cast(RemoteLeader, others.markers.sender(2))
    link = leader.requests.link
    codes: list[int] = []
    leader.send(work(), TOPIC[:1], lambda partition, code: codes.append(code))
    leader.requests._send()
    others.follow(images[0], images[1], ImageDelta(brokers_changed=True))
    assert len(codes) == 1
    images.pop(0)
    assert others.markers.sender(2) is None
    others.close()
    assert link._transport is None


async def test_a_broker_that_comes_back_gets_a_new_link() -> None:
    image = image_with(1, 2)
    others = OtherBrokers(1, lambda: image, "PLAINTEXT", None)
    first = cast(RemoteLeader, others.markers.sender(2))
    assert others.markers.sender(2) is first
    others.follow(image, image_with(1), ImageDelta(brokers_changed=True))
    again = cast(RemoteLeader, others.markers.sender(2))
    assert again.requests.link is not first.requests.link
    others.close()


async def test_the_authority_is_checked_before_a_response_is_used(other_broker: Broker) -> None:
    """After a pause of the process, its loop may serve a response before a timer."""
    seen: list[str] = []
    arrived = asyncio.Event()
    links = OtherBrokers(99, lambda: other_broker.metadata.image, "PLAINTEXT", None)
    links.check_authority = lambda: seen.append("checked")

    def answered(response: object) -> None:
        seen.append("used")
        arrived.set()

    link = links._of_calls.to(1)
    assert link is not None
    link.send(MetadataRequest(), 12, answered)
    async with asyncio.timeout(DEADLINE_S):
        await arrived.wait()
    assert seen == ["checked", "used"]
    assert {of_purpose.before_responses is not None for of_purpose in links._links} == {True}
    links.close()

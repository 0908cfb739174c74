"""A broker knows which producer ids may have been assigned, also by brokers that are dead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.members import BrokerImage, Registration
from oncelog_server.producer_id_supply import ProducerIdSupply


def image(*alive: int, fenced: tuple[int, ...] = ()) -> ClusterImage:
    return ClusterImage(
        brokers={id: BrokerImage(id, 1, "", (), None, {}) for id in alive},
        registrations=dict.fromkeys((*alive, *fenced), cast(Registration, None)),
    )


def supply(present: ClusterImage) -> tuple[ProducerIdSupply, Any]:
    metadata = SimpleNamespace(image=present)
    found = ProducerIdSupply(cast(Any, metadata), cast(Any, None), 1_000)
    found.ids.add(range(1_000, 2_000))
    return found, metadata


def test_a_broker_alone_knows_every_assigned_id() -> None:
    found, _ = supply(image(1))
    assert found.is_given(999)
    assert not found.is_given(2_000)


def test_the_ids_of_a_broker_that_has_died_may_have_been_assigned() -> None:
    """The last live broker loads transactions with these ids."""
    found, metadata = supply(image(1, 2))
    metadata.image = image(1, fenced=(2,))
    assert found.is_given(2_000)


def test_the_ids_of_a_broker_that_was_unregistered_may_have_been_assigned() -> None:
    found, metadata = supply(image(1))
    found.follow(image(1), image(1, 2), ImageDelta(brokers_changed=True))
    metadata.image = image(1)
    assert found.is_given(2_000)

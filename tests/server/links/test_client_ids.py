"""The client ids that brokers send in requests to other brokers."""

from __future__ import annotations

import pytest

from oncelog_server.links.client_ids import broker_of, markers_client_id


@pytest.mark.parametrize("broker_id", [0, 7, 2_147_483_647])
def test_a_broker_is_recognized_by_its_client_id(broker_id: int) -> None:
    assert broker_of(markers_client_id(broker_id)) == broker_id


@pytest.mark.parametrize(
    "client_id", ["", "adminclient-1", "broker-", "broker--markers", "broker-x-markers", "7"]
)
def test_other_client_ids_belong_to_no_sink(client_id: str) -> None:
    assert broker_of(client_id) is None

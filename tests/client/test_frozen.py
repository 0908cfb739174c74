"""Frozen values with named fields keep the promises of a dataclass."""

from __future__ import annotations

import pickle
from typing import Any, cast

import pytest

from oncelog_client.core.client_config import AdminConfig, ClientConfig, client_config

SERVERS = (("localhost", 9092),)


def test_a_value_holds_what_was_given_and_the_defaults_of_its_class_and_base() -> None:
    made = AdminConfig(bootstrap_servers=SERVERS, client_id="c")
    assert (made.client_id, made.request_timeout_ms) == ("c", 30_000)
    assert made.default_api_timeout_ms == 60_000
    assert client_config(made) == ClientConfig(bootstrap_servers=SERVERS, client_id="c")
    assert repr(client_config(made)).startswith("ClientConfig(bootstrap_servers=(('localhost', ")


def test_equal_values_are_equal_and_survive_pickling() -> None:
    made = AdminConfig(bootstrap_servers=SERVERS)
    assert made == AdminConfig(bootstrap_servers=SERVERS) == pickle.loads(pickle.dumps(made))
    assert hash(made) == hash(AdminConfig(bootstrap_servers=SERVERS))
    assert made != AdminConfig(bootstrap_servers=SERVERS, client_id="c")
    assert made != ClientConfig(bootstrap_servers=SERVERS)


def test_a_value_cannot_be_changed() -> None:
    made = cast(Any, AdminConfig(bootstrap_servers=SERVERS))
    with pytest.raises(AttributeError, match="client_id cannot be set"):
        made.client_id = "d"
    with pytest.raises(AttributeError, match="client_id cannot be deleted"):
        del made.client_id


@pytest.mark.parametrize("values", [{}, {"bootstrap_servers": SERVERS, "clientid": "c"}])
def test_a_missing_and_an_unknown_name_are_refused(values: Any) -> None:
    with pytest.raises(TypeError, match=r"AdminConfig: (bootstrap_servers|clientid) missing or"):
        AdminConfig(**values)

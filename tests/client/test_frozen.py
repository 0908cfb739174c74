"""The classes of client settings (`AdminConfig` and others) behave like frozen dataclasses."""

from __future__ import annotations

import pickle
from typing import Any, cast

import pytest

from oncelog_client.core.client_config import AdminConfig, ClientConfig, client_config

SERVERS = (("localhost", 9092),)


def test_fields_have_the_given_values_or_the_defaults_of_the_class_and_its_base() -> None:
    made = AdminConfig(bootstrap_servers=SERVERS, client_id="c")
    assert (made.client_id, made.request_timeout_ms) == ("c", 30_000)
    assert made.default_api_timeout_ms == 60_000
    assert client_config(made) == ClientConfig(bootstrap_servers=SERVERS, client_id="c")
    assert repr(client_config(made)).startswith("ClientConfig(bootstrap_servers=(('localhost', ")


def test_values_with_equal_fields_are_equal_even_after_pickling() -> None:
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
def test_a_missing_and_an_unknown_field_are_refused(values: Any) -> None:
    with pytest.raises(TypeError, match=r"AdminConfig: (bootstrap_servers|clientid) missing or"):
        AdminConfig(**values)

"""The reasons for which a broker is not ready."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog_server.observe.serving import unready


def services(*, groups: bool, transactions: bool) -> Any:
    """Return the services of a broker that loads its groups or its transactions."""
    return SimpleNamespace(
        groups=SimpleNamespace(views=SimpleNamespace(is_loading=groups)),
        transactions=SimpleNamespace(views=SimpleNamespace(is_loading=transactions)),
    )


@pytest.mark.parametrize(
    ("groups", "transactions", "stops", "reason"),
    [
        (False, False, False, ""),
        (True, False, False, "groups are still being loaded"),
        (False, True, False, "transactions are still being loaded"),
        (False, False, True, "the broker stops"),
    ],
)
def test_a_broker_that_loads_or_stops_is_not_ready(
    groups: bool, transactions: bool, stops: bool, reason: str
) -> None:
    connected: Any = SimpleNamespace(is_stopping=stops)
    assert unready(services(groups=groups, transactions=transactions), connected) == reason

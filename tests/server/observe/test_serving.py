"""The reasons for which a broker is not ready."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oncelog_server.observe.serving import unready
from oncelog_server.views.broker import StoreView

RESPONDS = StoreView(0, True)


def services(
    *, groups: bool = False, transactions: bool = False, store: StoreView = RESPONDS
) -> Any:
    """Return the services of a broker that loads its groups or its transactions, on this store."""
    return SimpleNamespace(
        views=SimpleNamespace(store=lambda: store),
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


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        (StoreView(8_000, True), ""),
        (
            StoreView(9_500, False),
            "the broker leads nothing, because the metadata store has not responded for 9 s",
        ),
        (
            StoreView(0, False),
            "the broker leads nothing, because its registration has ended",
        ),
    ],
)
def test_a_broker_is_ready_until_its_registration_may_have_ended(
    store: StoreView, reason: str
) -> None:
    connected: Any = SimpleNamespace(is_stopping=False)
    assert unready(services(store=store), connected) == reason

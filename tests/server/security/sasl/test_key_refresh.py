"""Keys are fetched at each interval, sooner after a failure, and for an unknown key. Invented key
ids do not make the broker fetch more often than the back-off allows."""

from __future__ import annotations

from oncelog_server.security.sasl.key_refresh import KeyRefresh
from oncelog_server.security.sasl.oauth_settings import OAuthSettings

SETTINGS = OAuthSettings(
    jwks_endpoint_refresh_ms=3_600_000,
    jwks_endpoint_retry_backoff_ms=100,
    jwks_endpoint_retry_backoff_max_ms=1_000,
)


def test_a_success_is_followed_by_the_interval_and_a_failure_by_a_backoff() -> None:
    refresh = KeyRefresh(SETTINGS)
    refresh.fetched(0, has_new_key=True)
    assert refresh.due_ms == 3_600_000
    pauses = []
    now = 3_600_000
    for _ in range(6):
        refresh.failed(now)
        pauses.append(refresh.due_ms - now)
        now = refresh.due_ms
    assert pauses == [100, 200, 400, 800, 1_000, 1_000]
    refresh.fetched(now, has_new_key=False)
    assert refresh.due_ms - now == 3_600_000


def test_invented_key_ids_cause_at_most_one_fetch_in_each_backoff() -> None:
    refresh = KeyRefresh(SETTINGS)
    refresh.fetched(0, has_new_key=True)
    fetches = []
    for now in range(1, 10_001):
        if refresh.may_fetch(now):
            fetches.append(now)
            refresh.fetched(now, has_new_key=False)
    assert fetches[:5] == [100, 300, 700, 1_500, 2_500]
    assert len(fetches) == 12


def test_a_new_key_and_a_quiet_time_reset_the_backoff() -> None:
    refresh = KeyRefresh(SETTINGS)
    for now in (0, 100, 300, 700):
        refresh.fetched(now, has_new_key=False)
    assert not refresh.may_fetch(1_400)
    refresh.fetched(1_500, has_new_key=True)
    assert refresh.may_fetch(1_600)
    for now in (1_600, 1_800, 2_200):
        refresh.fetched(now, has_new_key=False)
    assert not refresh.may_fetch(2_900)
    refresh.fetched(2_200 + 2_001, has_new_key=False)
    assert refresh.may_fetch(2_200 + 2_101)


def test_a_failed_fetch_counts_for_unknown_keys() -> None:
    refresh = KeyRefresh(SETTINGS)
    refresh.fetched(0, has_new_key=True)
    refresh.failed(100)
    assert not refresh.may_fetch(250)
    assert refresh.may_fetch(300)


def test_a_backoff_of_zero_still_waits() -> None:
    refresh = KeyRefresh(OAuthSettings(jwks_endpoint_retry_backoff_ms=0))
    refresh.failed(0)
    assert refresh.due_ms == 1
    assert not refresh.may_fetch(0)


def test_many_failures_do_not_overflow() -> None:
    refresh = KeyRefresh(SETTINGS)
    for _ in range(10_000):
        refresh.failed(0)
    assert refresh.due_ms == 1_000

"""The issuer's keys are replaced while the broker runs. If the new keys cannot be fetched, the old
keys stay in use."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from oncelog_server.deferred import Deferred
from oncelog_server.security.sasl.claims import Claims, InvalidToken
from oncelog_server.security.sasl.oauth_settings import OAuthSettings, OAuthSettingsError
from oncelog_server.security.sasl.verification_keys import VerificationKeys
from oncelog_server.tokens.endpoint import FileEndpoint, JwksEndpoint, JwksUnavailable
from oncelog_server.tokens.key_source import FILE_REFRESH_MS, KeySource
from oncelog_server.tokens.oauth_tokens import OAuthTokens, SignedTokens
from tests.harness.bearer_tokens import AUDIENCE, ISSUER, NOW_MS, NOW_S, Issuer, claims, part
from tests.server.manual_timers import ManualTimers

SETTINGS = OAuthSettings(
    jwks_endpoint_url="https://issuer.test/keys",
    jwks_endpoint_refresh_ms=3_600_000,
    jwks_endpoint_retry_backoff_ms=100,
    jwks_endpoint_retry_backoff_max_ms=1_000,
    expected_issuer=ISSUER,
    expected_audience=(AUDIENCE,),
)


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


class Endpoint:
    """Has the JWKS of the test, or fails. A closed `gate` holds the fetch in its thread."""

    url = "https://issuer.test/keys"

    def __init__(self, jwks: bytes) -> None:
        self.jwks: bytes | None = jwks
        self.fetches = 0
        self.gate = threading.Event()
        self.gate.set()

    def fetch(self) -> bytes:
        self.fetches += 1
        self.gate.wait()
        if self.jwks is None:
            raise JwksUnavailable("connection refused")
        return self.jwks


@asynccontextmanager
async def started(
    endpoint: JwksEndpoint, timers: ManualTimers
) -> AsyncIterator[tuple[KeySource, SignedTokens]]:
    source = KeySource(endpoint, SETTINGS, timers, lambda: timers.now_ms)
    await source.start()
    try:
        yield source, SignedTokens(source, SETTINGS, lambda: timers.now_ms)
    finally:
        await source.close()


async def judged(
    verdict: Claims | InvalidToken | Deferred[Claims | InvalidToken],
) -> Claims | InvalidToken:
    """Wait for a verdict that comes after a fetch."""
    assert isinstance(verdict, Deferred), verdict
    return await arrived(verdict)


async def arrived(later: Deferred[Claims | InvalidToken]) -> Claims | InvalidToken:
    future: asyncio.Future[Claims | InvalidToken] = asyncio.get_running_loop().create_future()
    later.on_complete(future.set_result)
    return await future


async def refreshed(source: KeySource, timers: ManualTimers, by_ms: int) -> None:
    """Let time pass, and wait for the end of the fetch that it causes."""
    timers.advance(by_ms)
    assert source._fetching is not None, "the time passes without a fetch"
    later = source.refetched()
    assert later is not None
    future: asyncio.Future[VerificationKeys] = asyncio.get_running_loop().create_future()
    later.on_complete(future.set_result)
    await future


async def test_a_token_of_a_new_key_waits_for_the_rotated_keys(issuer: Issuer) -> None:
    endpoint, timers = Endpoint(issuer.jwks("rsa")), ManualTimers()
    async with started(endpoint, timers) as (_, tokens):
        assert isinstance(tokens.validate(issuer.token(), NOW_MS), Claims)
        timers.advance(100)
        endpoint.jwks = issuer.jwks("p256")
        endpoint.gate.clear()
        first = tokens.validate(issuer.token("p256", "ES256"), NOW_MS)
        second = tokens.validate(issuer.token("p256", "ES256"), NOW_MS)
        # The old key still serves, without a wait.
        assert isinstance(tokens.validate(issuer.token(), NOW_MS), Claims)
        endpoint.gate.set()
        assert isinstance(await judged(first), Claims)
        assert isinstance(second, Deferred)
        assert isinstance(second.value, Claims)
        assert endpoint.fetches == 2
        # The issuer has removed the old key.
        refused = tokens.validate(issuer.token(), NOW_MS)
        assert isinstance(refused, InvalidToken)
        assert "no key of the JWKS fits kid='rsa'" in refused.reason


async def test_a_token_that_expires_during_the_wait_is_refused(issuer: Issuer) -> None:
    endpoint, timers = Endpoint(issuer.jwks("rsa")), ManualTimers()
    async with started(endpoint, timers) as (_, tokens):
        timers.advance(100)
        endpoint.jwks = issuer.jwks("p256")
        endpoint.gate.clear()
        ends = NOW_S - SETTINGS.clock_skew_seconds + 5
        verdict = tokens.validate(issuer.token("p256", "ES256", claims(exp=ends)), NOW_MS)
        timers.advance(5_000)
        endpoint.gate.set()
        refused = await judged(verdict)
        assert isinstance(refused, InvalidToken)
        assert "has expired" in refused.reason


async def test_the_interval_replaces_the_keys(issuer: Issuer) -> None:
    endpoint, timers = Endpoint(issuer.jwks("rsa")), ManualTimers()
    async with started(endpoint, timers) as (source, _):
        endpoint.jwks = issuer.jwks("p256")
        timers.advance(3_599_999)
        assert endpoint.fetches == 1
        await refreshed(source, timers, 1)
        assert (endpoint.fetches, source.keys.kids) == (2, ["p256"])


async def test_while_the_endpoint_is_down_the_old_keys_serve(issuer: Issuer) -> None:
    endpoint, timers = Endpoint(issuer.jwks("rsa")), ManualTimers()
    async with started(endpoint, timers) as (source, tokens):
        for jwks in (None, b"<html>", b'{"keys": []}'):
            endpoint.jwks = jwks
            await refreshed(source, timers, source._refresh.due_ms - timers.now_ms)
            assert source.keys.kids == ["rsa"]
            assert isinstance(tokens.validate(issuer.token(), NOW_MS), Claims)
        # A new key is refused after a fetch that fails, and at once during the back-off.
        timers.advance(source._refresh.due_ms - timers.now_ms)
        late = await judged(tokens.validate(issuer.token("p256", "ES256"), NOW_MS))
        assert isinstance(late, InvalidToken)
        assert isinstance(tokens.validate(issuer.token("p256", "ES256"), NOW_MS), InvalidToken)
        # The retry after the back-off finds the endpoint up again.
        endpoint.jwks = issuer.jwks("p256")
        await refreshed(source, timers, source._refresh.due_ms - timers.now_ms)
        assert source.keys.kids == ["p256"]


async def test_invented_key_ids_cause_few_fetches(issuer: Issuer) -> None:
    endpoint, timers = Endpoint(issuer.jwks("rsa")), ManualTimers()
    async with started(endpoint, timers) as (_, tokens):
        waited = 0
        for _ in range(200):
            timers.advance(10)
            verdict = tokens.validate(issuer.token("p256", "ES256"), NOW_MS)
            if isinstance(verdict, Deferred):
                verdict = await judged(verdict)
                waited += 1
            assert isinstance(verdict, InvalidToken)
        assert endpoint.fetches == 1 + waited
        assert waited == 4  # after 100, 300, 700 and 1,500 ms


async def test_a_closed_connection_leaves_no_wait_behind(issuer: Issuer) -> None:
    endpoint, timers = Endpoint(issuer.jwks("rsa")), ManualTimers()
    async with started(endpoint, timers) as (source, tokens):
        timers.advance(100)
        endpoint.gate.clear()
        verdicts = [tokens.validate(issuer.token("p256", "ES256"), NOW_MS) for _ in range(3)]
        assert len(source._waiting) == 3
        for verdict in verdicts[:2]:
            assert isinstance(verdict, Deferred)
            verdict.cancel()
        assert len(source._waiting) == 1
        endpoint.gate.set()
        assert isinstance(await judged(verdicts[2]), InvalidToken)


async def test_a_stop_completes_the_waits_and_sets_no_timer(issuer: Issuer) -> None:
    endpoint, timers = Endpoint(issuer.jwks("rsa")), ManualTimers()
    async with started(endpoint, timers) as (source, tokens):
        timers.advance(100)
        endpoint.gate.clear()
        verdict = tokens.validate(issuer.token("p256", "ES256"), NOW_MS)
        closing = asyncio.create_task(source.close())
        assert isinstance(await judged(verdict), InvalidToken)
        await closing
        endpoint.gate.set()
        assert not timers.waiting
        timers.advance(10_000)
        refused = tokens.validate(issuer.token("p256", "ES256"), NOW_MS)
        assert isinstance(refused, InvalidToken)


async def test_a_defect_of_a_fetch_does_not_end_the_refresh(issuer: Issuer) -> None:
    endpoint, timers = Endpoint(issuer.jwks("rsa")), ManualTimers()
    async with started(endpoint, timers) as (source, _):
        endpoint.jwks = "a text"  # type: ignore[assignment]  # the defect
        await refreshed(source, timers, 3_600_000)
        endpoint.jwks = issuer.jwks("p256")
        await refreshed(source, timers, source._refresh.due_ms - timers.now_ms)
        assert source.keys.kids == ["p256"]


async def test_without_keys_at_the_start_the_error_names_setting_and_reason() -> None:
    endpoint = Endpoint(b"{}")
    for jwks, reason in ((b"{}", "a list `keys`"), (None, "connection refused")):
        endpoint.jwks = jwks
        source = KeySource(endpoint, SETTINGS, ManualTimers(), lambda: 0)
        with pytest.raises(JwksUnavailable, match=reason) as caught:
            await source.start()
        assert f"sasl.oauthbearer.jwks.endpoint.url={endpoint.url}" in str(caught.value)


async def test_a_file_is_read_again_within_seconds(issuer: Issuer, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(issuer.jwks("rsa", "p256"))
    timers = ManualTimers()
    async with started(FileEndpoint(f"file://{path}", path), timers) as (source, tokens):
        path.write_bytes(issuer.jwks("p256"))
        await refreshed(source, timers, FILE_REFRESH_MS)
        timers.advance(100)
        revoked = tokens.validate(issuer.token(), NOW_MS)
        assert isinstance(await judged(revoked), InvalidToken)


async def test_the_settings_choose_the_validator(issuer: Issuer, tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(issuer.jwks("rsa"))
    url = f"file://{tmp_path}/keys"
    unsigned = f"{part({'alg': 'none'})}.{part({'sub': 'bob', 'exp': NOW_S + 1})}."

    async def opened(settings: OAuthSettings) -> OAuthTokens:
        timers = ManualTimers()
        return await OAuthTokens.open(settings, timers, lambda: timers.now_ms)

    signed = await opened(
        OAuthSettings(jwks_endpoint_url=f" {url} ", expected_audience=(AUDIENCE,))
    )
    assert signed.validate(issuer.token(), NOW_MS) == Claims("alice", (NOW_S + 600) * 1000)
    assert isinstance(signed.validate(unsigned, NOW_MS), InvalidToken)
    await signed.close()
    unsecured = await opened(OAuthSettings(unsecured=True))
    assert unsecured.validate(unsigned, NOW_MS) == Claims("bob", (NOW_S + 1) * 1000)
    assert isinstance(unsecured.validate(issuer.token(), NOW_MS), InvalidToken)
    await unsecured.close()
    with pytest.raises(OAuthSettingsError, match="OAUTHBEARER has no keys"):
        await opened(OAuthSettings())
    with pytest.raises(OAuthSettingsError, match="contradicts"):
        await opened(OAuthSettings(jwks_endpoint_url=url, unsecured=True))


async def test_unsecured_tokens_are_warned_about_at_every_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    timers = ManualTimers()
    for _ in range(2):
        await OAuthTokens.open(OAuthSettings(unsecured=True), timers, lambda: timers.now_ms)
        assert "oncelog.sasl.oauthbearer.unsecured=true" in capsys.readouterr().out


async def test_no_log_event_has_a_token(issuer: Issuer, capsys: pytest.CaptureFixture[str]) -> None:
    endpoint, timers = (
        Endpoint(json.dumps({"keys": [issuer.public("rsa")]}).encode()),
        ManualTimers(),
    )
    token = issuer.token(payload=claims(exp=0))
    async with started(endpoint, timers) as (source, tokens):
        assert isinstance(tokens.validate(token, NOW_MS), InvalidToken)
        endpoint.jwks = None
        await refreshed(source, timers, 3_600_000)
    printed = capsys.readouterr()
    assert "old keys stay in use" in printed.out
    assert token not in printed.out + printed.err

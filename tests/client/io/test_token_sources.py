"""A client has a token that has not expired, from a callback, a file or an issuer."""

from __future__ import annotations

import asyncio
import json
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog_client.core.backoff import Backoff
from oncelog_client.core.client_credentials import ClientCredentials
from oncelog_client.core.oauth_token import AccessToken, OAuthTokenError
from oncelog_client.io.token_endpoint import TokenEndpoint
from oncelog_client.io.token_sources import (
    RETRY_MS,
    FileTokens,
    RefreshingTokens,
    callback_tokens,
    client_credentials_tokens,
)
from oncelog_protocol.secret import Secret
from tests.harness.bearer_tokens import NOW_MS, NOW_S, claims, part
from tests.harness.https_issuer import Request, always, response, serving

HOUR_MS = 3_600_000


class Issuing:
    """Gives tokens of an hour with numbers, at the time of the test. It fails while `error` is
    set, and waits while `gate` is closed."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS
        self.calls = 0
        self.error: Exception | None = None
        self.called = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.life_ms: int | None = HOUR_MS
        self.source = RefreshingTokens(
            self.retrieve, now_ms=lambda: self.now_ms, randomness=lambda: 0.0
        )

    async def retrieve(self) -> AccessToken:
        self.calls += 1
        number = self.calls
        self.called.set()
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        expires = None if self.life_ms is None else self.now_ms + self.life_ms
        return AccessToken(Secret(str(number)), expires)

    async def token(self) -> str:
        return (await self.source.token()).reveal()


async def test_a_token_serves_until_the_refresh_window() -> None:
    issuing = Issuing()
    tokens = []
    for now in (0, 2_879_999, 2_880_000, 2_880_001):
        issuing.now_ms = NOW_MS + now
        tokens.append(await issuing.token())
    assert tokens == ["1", "1", "2", "2"]


async def test_an_endless_token_is_never_replaced() -> None:
    issuing = Issuing()
    issuing.life_ms = None
    assert await issuing.token() == "1"
    issuing.now_ms += 10 * HOUR_MS
    assert await issuing.token() == "1"


async def test_a_failed_refresh_leaves_the_old_token_until_its_end() -> None:
    issuing = Issuing()
    assert await issuing.token() == "1"
    issuing.error = OAuthTokenError("down")
    issuing.now_ms = NOW_MS + 3_000_000
    assert await issuing.token() == "1"
    assert await issuing.token() == "1"
    assert issuing.calls == 2, "a failed refresh is retried after a pause"
    issuing.now_ms += RETRY_MS
    assert await issuing.token() == "1"
    assert issuing.calls == 3
    issuing.now_ms = NOW_MS + HOUR_MS
    with pytest.raises(OAuthTokenError, match="down"):
        await issuing.token()
    issuing.error = None
    assert await issuing.token() == "5"


async def test_concurrent_calls_share_a_retrieval_and_survive_a_cancel() -> None:
    issuing = Issuing()
    issuing.gate.clear()
    calls = [asyncio.create_task(issuing.token()) for _ in range(3)]
    await issuing.called.wait()
    calls[0].cancel()
    await asyncio.wait({calls[0]})
    issuing.gate.set()
    assert await calls[1] == await calls[2] == "1"
    assert calls[0].cancelled()
    assert issuing.calls == 1


async def test_a_close_ends_the_retrieval_and_is_no_cancel_of_a_caller() -> None:
    issuing = Issuing()
    issuing.gate.clear()
    before = asyncio.all_tasks()
    call = asyncio.create_task(issuing.token())
    await issuing.called.wait()
    await issuing.source.close()
    with pytest.raises(OAuthTokenError, match="was closed"):
        await call
    assert asyncio.all_tasks() == before
    await issuing.source.close()


async def test_an_error_reaches_every_caller_and_the_next_call_retrieves_again() -> None:
    issuing = Issuing()
    issuing.error = OAuthTokenError("down")
    results = await asyncio.gather(*(issuing.token() for _ in range(3)), return_exceptions=True)
    assert [str(result) for result in results] == ["down"] * 3
    issuing.error = None
    assert await issuing.token() == "2"


async def test_a_token_that_arrives_expired_is_an_error() -> None:
    issuing = Issuing()
    issuing.life_ms = 0
    with pytest.raises(OAuthTokenError, match="has expired already"):
        await issuing.token()


async def test_a_callback_may_be_a_function_or_a_coroutine_function() -> None:
    threads: list[threading.Thread] = []

    def plain() -> str:
        threads.append(threading.current_thread())
        return "plain"

    async def asynchronous() -> tuple[str, float]:
        threads.append(threading.current_thread())
        return "asynchronous", 10.0**10

    assert await callback_tokens(plain).token() == Secret("plain")
    assert await callback_tokens(asynchronous).token() == Secret("asynchronous")
    assert await callback_tokens(lambda: asynchronous()).token() == Secret("asynchronous")
    loop_thread = threading.current_thread()
    # A plain function may block, so it has a thread of its own.
    assert [thread is loop_thread for thread in threads] == [False, True, True]


async def test_a_callback_that_fails_is_an_error_with_its_cause() -> None:
    def failing() -> str:
        raise RuntimeError("S3cret")

    with pytest.raises(
        OAuthTokenError, match="the OAuth callback failed with RuntimeError"
    ) as found:
        await callback_tokens(failing).token()
    assert isinstance(found.value.__cause__, RuntimeError)
    assert "S3cret" not in str(found.value)
    with pytest.raises(OAuthTokenError, match="type int"):
        await callback_tokens(lambda: 7).token()


async def test_a_file_is_read_at_each_connection(tmp_path: Path) -> None:
    path = tmp_path / "token"
    source = FileTokens(path, lambda: NOW_MS)
    path.write_text(" first \n")
    assert await source.token() == Secret("first")
    path.write_text("second")
    assert await source.token() == Secret("second")


async def test_a_bad_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "token"
    expired = f"{part({'alg': 'none'})}.{part(claims(exp=NOW_S))}.S3cret"
    for content, message in (
        (None, "No such file"),
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"S3cret\xff", "not ASCII"),
        (b"S" * (1024 * 1024 + 1), "more than 1048576 bytes"),
        (expired.encode(), "has expired"),
    ):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(OAuthTokenError, match=message) as caught:
            await FileTokens(path, lambda: NOW_MS).token()
        assert str(path) in str(caught.value)
        assert "S3cret" not in "".join(traceback.format_exception(caught.value))


async def test_client_credentials_get_a_token_from_the_issuer() -> None:
    body = json.dumps({"access_token": "granted", "expires_in": 600}).encode()
    with serving(always(body)) as web:
        endpoint = TokenEndpoint(web.url("/token"))
        credentials = ClientCredentials("id", Secret("S3cret"), "read")
        assert await client_credentials_tokens(endpoint, credentials).token() == Secret("granted")
        (request,) = web.requests
    assert (request.method, request.path) == ("POST", "/token")
    assert request.body == b"grant_type=client_credentials&scope=read"
    assert request.headers["Authorization"] == "Basic aWQ6UzNjcmV0"
    assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"


async def test_a_retriable_failure_is_retried_and_a_final_failure_is_not() -> None:
    statuses = [503, 500, 200]
    waits: list[float] = []

    def respond(_: Request) -> Iterator[bytes]:
        return iter([response(b'{"access_token": "granted"}', statuses.pop(0))])

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    with serving(respond) as web:
        endpoint = TokenEndpoint(web.url())
        source = client_credentials_tokens(
            endpoint, ClientCredentials("id", Secret("S3cret")), sleep=sleep
        )
        assert await source.token() == Secret("granted")
        assert 0.08 <= waits[0] <= 0.12
        assert 0.16 <= waits[1] <= 0.24
        statuses[:] = [401, 200]
        source = client_credentials_tokens(
            endpoint, ClientCredentials("id", Secret("S3cret")), sleep=sleep
        )
        with pytest.raises(OAuthTokenError, match="status 401") as caught:
            await source.token()
    assert len(waits) == 2
    assert "S3cret" not in "".join(traceback.format_exception(caught.value))


async def test_retries_end_after_the_longest_backoff() -> None:
    with serving(always(b"", 503)) as web:
        source = client_credentials_tokens(
            TokenEndpoint(web.url()),
            ClientCredentials("id", Secret("S3cret")),
            backoff=Backoff(1, 20),
        )
        with pytest.raises(OAuthTokenError, match="status 503") as caught:
            await source.token()
    assert caught.value.is_retriable

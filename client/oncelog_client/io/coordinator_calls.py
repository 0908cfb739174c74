"""A call to a coordinator for a transaction, repeated until the outcome is known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from oncelog_client.connect_failures import described
from oncelog_client.core.backoff import Backoff
from oncelog_client.core.refused_resources import refused_resources
from oncelog_client.core.request_versions import ANY_VERSION, explicit_versions
from oncelog_client.core.verdicts import Verdict, verdict
from oncelog_client.errors import DisconnectedError, KafkaError, RetriableError
from oncelog_protocol.apis import ApiKey, api_of
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest

from .clock import monotonic_ms
from .cluster import Cluster, CoordinatorType
from .randomness import fraction

R = TypeVar("R")

# The backoff after CONCURRENT_TRANSACTIONS: the coordinator finishes the previous transaction in
# less than 100 ms.
_CONCURRENT_BACKOFF: Final = Backoff(5, 100)


class Unanswered(Exception):
    """Raised if no further attempt is possible before the deadline. `maybe_done`: an attempt was
    sent to the coordinator and got no response."""

    def __init__(self, message: str, *, maybe_done: bool) -> None:
        super().__init__(message)
        self.message = message
        self.maybe_done = maybe_done


class _NoConnection(Exception):
    """Raised if there is no connection to the coordinator. The request was not sent, although the
    cause may be the lost response to a FindCoordinator or Metadata request."""

    def __init__(self, cause: RetriableError) -> None:
        super().__init__(str(cause))


class Refused(Exception):
    """Raised if the coordinator refuses the call, or the search for the coordinator fails.
    `maybe_done`: an earlier attempt was sent to the coordinator and got no response."""

    def __init__(
        self, api: ApiKey, code: int, message: str, *, maybe_done: bool, response: object = None
    ) -> None:
        super().__init__(api, code, message)
        self.response = response
        self.api = api
        self.code = code
        self.message = message
        self.maybe_done = maybe_done

    @property
    def verdict(self) -> Verdict:
        return verdict(self.api, self.code)


class Attempts:
    """The attempts of one call to `ask`, for a caller that may be cancelled. `maybe_done`: an
    attempt was sent to the coordinator, and has or had no response."""

    __slots__ = ("maybe_done",)

    def __init__(self) -> None:
        self.maybe_done = False


async def ask(
    cluster: Cluster,
    kind: CoordinatorType,
    key: str,
    request: object,
    response_type: type[R],
    codes: Callable[[R], Iterable[int]],
    deadline_ms: float,
    versions: range = ANY_VERSION,
    *,
    implicit: bool = False,
    attempts: Attempts | None = None,
) -> R:
    """Repeat the request until the response is a success. `codes` returns the error codes in a
    response. `implicit`: the transaction has version 2. Brokers then add partitions to the
    transaction, and EndTxn bumps the epoch. Otherwise the epoch stays. `attempts` shows, after any
    end of the call, if the request may have taken effect.

    Raises Unanswered at `deadline_ms`, even during an attempt, or earlier if the next attempt would
    begin after `deadline_ms`. Raises Refused for a response that is neither success nor a reason to
    retry.
    """
    api = api_of(type(request)).key
    if not implicit:
        versions = range(versions.start, min(versions.stop, explicit_versions(api).stop))
    attempts = Attempts() if attempts is None else attempts
    failures = 0
    while True:
        backoff = cluster.backoff
        try:
            response = await _attempt(
                cluster, kind, key, request, response_type, versions, deadline_ms, attempts
            )
        except (_NoConnection, RetriableError) as error:
            reason = str(error)
        except KafkaError as error:
            # The coordinator could not be found, or speaks no version that the call needs.
            api = ApiKey.FIND_COORDINATOR
            message = error.message or key
            raise Refused(api, error.code, message, maybe_done=attempts.maybe_done) from error
        else:
            code = _worst(api, codes(response))
            outcome = verdict(api, code)
            if outcome is Verdict.DONE:
                return response
            if outcome is Verdict.FIND_COORDINATOR:
                cluster.forget_coordinator(kind, key)
            elif outcome is not Verdict.RETRY:
                message = _refusal(request, response, code, f"{api.name} of {key}")
                raise Refused(api, code, message, maybe_done=attempts.maybe_done, response=response)
            if code == ErrorCode.CONCURRENT_TRANSACTIONS:
                backoff = _CONCURRENT_BACKOFF
            reason = known_code(code).name
            if resources := refused_resources(request, response, code):
                reason += f": {resources}"
        failures += 1
        delay_ms = backoff.delay_ms(failures, fraction())
        if monotonic_ms() + delay_ms >= deadline_ms:
            raise Unanswered(f"{api.name}: {reason}", maybe_done=attempts.maybe_done)
        await asyncio.sleep(delay_ms / 1000)


async def _attempt(
    cluster: Cluster,
    kind: CoordinatorType,
    key: str,
    request: object,
    response: type[R],
    versions: range,
    deadline_ms: float,
    attempts: Attempts,
) -> R:
    """Make one attempt that ends at `deadline_ms`, and note in `attempts` if it was sent and got no
    response. Raises _NoConnection if no connection to the coordinator can be opened. After that,
    raises RetriableError, for example DisconnectedError (with `sent` False if the request was not
    sent), or TimedOutError without a response."""
    try:
        async with asyncio.timeout(max(deadline_ms - monotonic_ms(), 0) / 1000):
            connection = await cluster.coordinator_connection(kind, key)
    except TimeoutError:
        failures = cluster.failures
        reason = described(failures) if failures else f"the coordinator of {key} was not found"
        raise _NoConnection(DisconnectedError(f"{reason} in time")) from None
    except RetriableError as error:
        raise _NoConnection(error) from error
    left_ms = max(deadline_ms - monotonic_ms(), 0)
    timeout_ms = min(left_ms, cluster.config.request_timeout_ms)
    earlier = attempts.maybe_done
    # A cancelled call leaves this value: the request is in flight, or may be.
    attempts.maybe_done = True
    try:
        found = await connection.call(request, response, timeout_ms=timeout_ms, versions=versions)
    except RetriableError as error:
        attempts.maybe_done = earlier or not isinstance(error, DisconnectedError) or error.sent
        cluster.forget_coordinator(kind, key)
        raise
    except KafkaError:
        attempts.maybe_done = earlier
        raise
    attempts.maybe_done = earlier
    return found


def _refusal(request: object, response: object, code: int, what: str) -> str:
    """Return a message with the refused request, and with the resource if a right is missing. Add
    advice if the code alone is not clear: KIP-939 has the same code for a disabled setting and for
    a missing right."""
    if (
        code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        and isinstance(request, InitProducerIdRequest)
        and (request.enable_2pc or request.keep_prepared_txn)
    ):
        return (
            f"{what}: two-phase commit needs transaction.two.phase.commit.enable=true on the "
            "broker, and the right to it"
        )
    if code == ErrorCode.INVALID_TRANSACTION_TIMEOUT and isinstance(request, InitProducerIdRequest):
        return (
            f"{what}: transaction.timeout.ms={request.transaction_timeout_ms}: the broker allows "
            "at most transaction.max.timeout.ms. Set a shorter timeout, or raise the broker's "
            "setting"
        )
    resources = refused_resources(request, response, code)
    return f"{what}: {resources}" if resources else what


def _worst(api: ApiKey, codes: Iterable[int]) -> int:
    """Return the code that decides the outcome. A code that ends the call comes before a code that
    requires a retry."""
    order = (Verdict.DONE, Verdict.RETRY, Verdict.FIND_COORDINATOR, Verdict.ABORTABLE)

    def rank(code: int) -> int:
        outcome = verdict(api, code)
        if code == ErrorCode.OPERATION_NOT_ATTEMPTED:
            # This code just means that another partition is the cause.
            return 1
        return order.index(outcome) if outcome in order else len(order)

    return max(codes, key=rank, default=ErrorCode.NONE)


def known_code(code: int) -> ErrorCode:
    """Return the ErrorCode of a number, or UNKNOWN_SERVER_ERROR for an unknown number."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR

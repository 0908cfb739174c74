"""The rights that calls of the admin client need, for the message of a call that lacks them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from oncelog_client.errors import AuthorizationError
from oncelog_protocol.errors import ErrorCode

P = ParamSpec("P")
T = TypeVar("T")


def needs(
    operation: str, *, on_topics: str = ""
) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, Coroutine[Any, Any, T]]]:
    """Return a decorator for a call that needs `operation`, such as DESCRIBE. The decorator sets
    `operation` of an AuthorizationError of the call. `on_topics` is the operation that the call
    needs on topics, if that is another."""

    def decorate(
        call: Callable[P, Coroutine[Any, Any, T]],
    ) -> Callable[P, Coroutine[Any, Any, T]]:
        @wraps(call)
        async def named(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return await call(*args, **kwargs)
            except AuthorizationError as error:
                is_topic = error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
                error.operation = error.operation or (is_topic and on_topics) or operation
                raise

        return named

    return decorate

"""The permits of one request: a strict request is refused, any other is throttled afterwards."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.quotas.mutations import MutationPermits
from oncelog_server.quotas.token_bucket import TokenBucket
from oncelog_server.quotas.windows import Windows
from oncelog_server.refusal import Refused

# A burst of ten partitions.
WINDOWS = Windows(10, 1_000)
LIMIT = 1.0


class Client:
    """A client with one bucket for its requests. The test moves `now_ms`."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._bucket = TokenBucket()

    def request(self, *, is_strict: bool) -> MutationPermits:
        return MutationPermits(
            self._bucket, LIMIT, WINDOWS, lambda: self.now_ms, is_strict=is_strict
        )


def test_a_strict_request_is_refused_while_the_tokens_are_negative() -> None:
    client = Client()
    request = client.request(is_strict=True)
    request.take("large", 12)
    with pytest.raises(Refused) as refused:
        request.take("next", 1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert request.throttle_ms() == 2_000
    client.now_ms = 1_500
    assert request.throttle_ms() == 500
    client.now_ms = 2_000
    client.request(is_strict=True).take("next", 1)


def test_a_request_that_is_not_strict_is_accepted_and_throttled() -> None:
    request = Client().request(is_strict=False)
    request.take("large", 12)
    assert request.throttle_ms() == 2_000
    request.take("next", 1)
    assert request.throttle_ms() == 3_000


def test_the_first_outcome_of_a_topic_stays() -> None:
    """A decision on metadata may be made several times."""
    client = Client()
    request = client.request(is_strict=True)
    for _ in range(3):
        request.take("topic", 10)
    client.request(is_strict=True).take("other", 1)
    with pytest.raises(Refused):
        request.take("third", 1)
    client.now_ms = 60_000
    with pytest.raises(Refused):
        request.take("third", 1)

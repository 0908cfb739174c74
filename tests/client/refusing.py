"""Calls that must fail, and their error codes."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from oncelog_client import KafkaError
from oncelog_protocol.errors import ErrorCode


async def refused(call: Awaitable[object]) -> ErrorCode:
    """Return the error code of a call that must fail."""
    with pytest.raises(KafkaError) as caught:
        await call
    return caught.value.code

"""Calls that have to fail, and by which error."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from oncelog_client import KafkaError
from oncelog_protocol.errors import ErrorCode


async def refused(call: Awaitable[object]) -> ErrorCode:
    """The error code of a call that has to fail."""
    with pytest.raises(KafkaError) as caught:
        await call
    return caught.value.code

"""The error codes of requests after a failed append of their records."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.group.append_errors import APPEND_ERRORS, append_error


@pytest.mark.parametrize("code", list(ErrorCode))
def test_a_failed_append_has_codes_that_group_clients_know(code: ErrorCode) -> None:
    mapped = append_error(code)
    assert mapped == APPEND_ERRORS.get(code, code)
    assert mapped not in APPEND_ERRORS

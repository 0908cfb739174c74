"""A table has the error codes of WriteTxnMarkers after which the coordinator sends no marker again.
After all other codes, the coordinator retries."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.transaction.marker_delivery import (
    MARKER_OUTCOMES,
    MarkerOutcome,
    marker_outcome,
)


def test_only_two_codes_mean_that_no_marker_is_needed() -> None:
    written = {
        code for code, outcome in MARKER_OUTCOMES.items() if outcome is MarkerOutcome.WRITTEN
    }
    assert written == {ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH}


def test_only_a_newer_coordinator_makes_this_one_stop() -> None:
    stale = {code for code, outcome in MARKER_OUTCOMES.items() if outcome is MarkerOutcome.STALE}
    assert stale == {ErrorCode.TRANSACTION_COORDINATOR_FENCED}


@pytest.mark.parametrize("code", sorted(set(ErrorCode) - set(MARKER_OUTCOMES)))
def test_I8_a_marker_is_retried_after_every_other_code(code: ErrorCode) -> None:
    assert marker_outcome(code) is MarkerOutcome.RETRY

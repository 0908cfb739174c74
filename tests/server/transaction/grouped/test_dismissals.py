"""Each reason for which a group refuses a member has a message for the producer."""

from __future__ import annotations

import pytest

from oncelog_server.group.history import Dismissal, Requester, Why
from oncelog_server.transaction.fences import FenceCause, Reason
from oncelog_server.transaction.grouped.dismissals import CAUSES, reason_of

BY = Requester("newer", "10.0.0.7")


@pytest.mark.parametrize("why", Why)
def test_each_reason_has_its_own_cause_with_time_and_client(why: Why) -> None:
    assert reason_of(Dismissal(why, 17, BY)) == Reason(CAUSES[why], BY, 17)
    assert list(CAUSES.values()).count(CAUSES[why]) == 1


def test_a_replaced_instance_is_refused_as_fenced() -> None:
    """For an operator, a replaced instance and a fenced producer both mean that a member was
    started twice."""
    assert reason_of(Dismissal(Why.REPLACED)) == Reason(FenceCause.NEWER_INSTANCE)

"""The broker limits its connections, so that enough file descriptors are left for the logs."""

from __future__ import annotations

import resource
from dataclasses import replace

import pytest
import structlog

from oncelog_server.operating_system.descriptors import (
    affordable_connections,
    affordable_descriptors,
)
from oncelog_server.serve import leave_room_for_files
from oncelog_server.settings.model import Settings


@pytest.mark.parametrize("allowed", [256, 1_024, 4_096, None])
def test_connections_leave_descriptors_for_files(
    monkeypatch: pytest.MonkeyPatch, allowed: int | None
) -> None:
    soft = resource.RLIM_INFINITY if allowed is None else allowed
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, soft))
    few = replace(Settings(), max_connections=10)
    with structlog.testing.capture_logs() as said:
        assert leave_room_for_files(few) is few
        assert said == []
        most = leave_room_for_files(Settings()).max_connections
    if allowed is None:
        assert (most, said) == (Settings().max_connections, [])
        return
    assert most == affordable_connections()
    assert 0 < most < allowed - affordable_descriptors()
    assert [event["limit"] for event in said] == [most]

"""How long a broker keeps a client waiting, as CPU time: other processes of the machine do not
count."""

from __future__ import annotations

from pathlib import Path

from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from tests.harness.broker import Oncelog
from tests.harness.wire import Wire


def cpu_ms(broker: Oncelog) -> float:
    """Return the CPU time of the broker's main thread since its start."""
    return int(Path(f"/proc/{broker.pid}/schedstat").read_text().split()[0]) / 1e6


def bytes_read(broker: Oncelog) -> int:
    """Return the broker's CPU time until a small request gets its response."""
    lines = Path(f"/proc/{broker.pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


def held_ms(broker: Oncelog, bystander: Wire) -> float:
    """What the broker has computed until a small request gets its response."""
    before = cpu_ms(broker)
    assert bystander.call(ApiVersionsRequest("bystander", "1"), 3).api_keys
    return cpu_ms(broker) - before

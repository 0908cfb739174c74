"""A TCP proxy that knows the protocol. It can delay, drop, repeat or damage a single frame, as a
network may."""

from __future__ import annotations

from oncelog.testing.proxy.fates import (
    Cut,
    Delay,
    Drop,
    Duplicate,
    Fate,
    Flip,
    Hold,
    Record,
    Throttle,
)
from oncelog.testing.proxy.frame import Direction, Frame
from oncelog.testing.proxy.proxy import Proxy

__all__ = [
    "Cut",
    "Delay",
    "Direction",
    "Drop",
    "Duplicate",
    "Fate",
    "Flip",
    "Frame",
    "Hold",
    "Proxy",
    "Record",
    "Throttle",
]

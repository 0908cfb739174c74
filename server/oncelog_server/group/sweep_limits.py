"""The limits that a sweep of expired offsets learns from the log."""

from __future__ import annotations

import msgspec


class SweepLimits(msgspec.Struct, frozen=True):
    """The limits of the slices of a sweep, beside those of the settings.

    `bytes_max` is the maximum size of a slice's records. It falls during a sweep if the log accepts
    no batch of this size. `left_out` are groups with a tombstone that is too large for the log.
    """

    bytes_max: int
    left_out: frozenset[str] = frozenset()

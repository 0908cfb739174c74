"""The values of `auto_offset_reset`: where a partition without a position begins (KIP-1106)."""

from __future__ import annotations

from typing import Final, TypeAlias

from .iso_duration import parse_iso_duration

# earliest, latest, none, or by_duration:<PnDTnHnMn.nS>.
OffsetReset: TypeAlias = str

_NAMES: Final = ("earliest", "latest", "none")
_BY_DURATION: Final = "by_duration:"


def reset_duration_ms(reset: OffsetReset) -> int | None:
    """Return the duration of `by_duration:<PnDTnHnMn.nS>` in ms. Return None for another value, and
    for a duration that is invalid or negative."""
    if not reset.startswith(_BY_DURATION):
        return None
    duration_ms = parse_iso_duration(reset.removeprefix(_BY_DURATION))
    return None if duration_ms is None or duration_ms < 0 else duration_ms


def refused_reset(setting: str, value: object) -> str:
    """Return the words of Kafka's consumer for an invalid value, or an empty text if it is
    valid."""
    if isinstance(value, str) and (value in _NAMES or reset_duration_ms(value) is not None):
        return ""
    return (
        f"Invalid value `{value}` for configuration {setting}. The value must be either "
        "'earliest', 'latest', 'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'."
    )

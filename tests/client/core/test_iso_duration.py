"""Durations are those of `Duration.parse` of Java 17, with which the cases were compared."""

from __future__ import annotations

import pytest

from oncelog_client.core.iso_duration import parse_iso_duration
from oncelog_client.core.offset_reset import refused_reset, reset_duration_ms

MOST_SECONDS = (1 << 63) - 1


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("PT1H", 3_600_000),
        ("pt1h", 3_600_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("P2D", 172_800_000),
        ("PT1,5S", 1_500),
        ("PT1.S", 1_000),
        ("PT0S", 0),
        ("PT+1H", 3_600_000),
        ("+PT1H", 3_600_000),
        ("-PT-1H", 3_600_000),
        ("P1DT-1H", 82_800_000),
        ("PT-5H", -18_000_000),
        ("-PT1.5S", -1_500),
        ("PT-0.5S", -500),
        (f"PT{MOST_SECONDS}S", MOST_SECONDS * 1_000),
    ],
)
def test_a_duration_is_the_one_that_java_reads(text: str, duration_ms: int) -> None:
    assert parse_iso_duration(text) == duration_ms


@pytest.mark.parametrize(
    "text",
    [
        *("", "P", "PT", "P1DT", "1H", "PT1X", "P1W", "P1M", "PT1.5H", "PT.5S", "PT1H ", "P-D"),
        *(
            "PT1S2M",
            "PT-1H2H",
            "PT٣S",
            "PT1.0123456789S",
            f"PT{MOST_SECONDS + 1}S",
            f"PT{'9' * 5_000}S",
        ),
        f"PT1M{MOST_SECONDS}S",
    ],
)
def test_a_text_that_java_refuses_is_no_duration(text: str) -> None:
    assert parse_iso_duration(text) is None


@pytest.mark.parametrize(
    "value", ["never", "Earliest", "", "by_duration", "by_duration:", "BY_DURATION:PT1H", None, 7]
)
def test_an_invalid_reset_is_refused_in_the_words_of_kafka(value: object) -> None:
    assert refused_reset("auto.offset.reset", value) == (
        f"Invalid value `{value}` for configuration auto.offset.reset. The value must be either "
        "'earliest', 'latest', 'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'."
    )


def test_a_negative_duration_is_no_reset() -> None:
    assert reset_duration_ms("by_duration:PT-1S") is None
    assert refused_reset("auto.offset.reset", "by_duration:-P1D")

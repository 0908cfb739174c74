"""The parser of Prometheus reads the same metrics that the broker wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.metrics.exposition import COUNTER, GAUGE, WORK, Metric, label_text, slices
from tests.harness.scraping import Scraped, scraped

PER_TOPIC = Metric("bytes", GAUGE, "Bytes.", ("topic", "host"))

texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(texts, texts, st.integers(-(2**63), 2**63))
def test_any_label_and_any_offset_are_parsed_as_they_were_written(
    topic: str, host: str, offset: int
) -> None:
    page = scraped([PER_TOPIC.head(), PER_TOPIC.line(offset, topic, host)])
    assert page.value("bytes", topic=topic, host=host) == offset


@given(texts)
def test_any_help_text_is_escaped(text: str) -> None:
    metric = Metric("a_total", COUNTER, text)
    page = scraped(metric.only(0.5))
    assert page.types == {"a": "counter"}
    assert page.value("a_total") == 0.5


def test_a_sample_must_have_all_labels_of_its_metric() -> None:
    for labels in ((), ("a",), ("a", "b", "c")):
        with pytest.raises(ValueError, match="argument"):
            PER_TOPIC.line(1, *labels)
    assert label_text((), ()) == ""


@given(st.lists(st.sampled_from(["a 1\n", WORK])), st.integers(1, 10))
def test_slices_make_up_the_page_and_none_is_longer_than_the_limit(
    lines: list[str], size: int
) -> None:
    found = list(slices(lines, size))
    assert b"".join(found) == "".join(lines).encode()
    assert all(portion.count(b"\n") <= size for portion in found)


def test_work_without_a_line_counts_for_a_slice() -> None:
    """A walk over many partitions lets other requests run, even if it writes no line."""
    assert len(list(slices([WORK] * 1000, 100))) > 9


def test_the_parser_of_the_tests_refuses_duplicate_samples() -> None:
    with pytest.raises(AssertionError, match="twice"):
        Scraped("a 1\na 2\n")

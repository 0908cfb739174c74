"""Each failure of the article with real processes: what the system does, and an audit without
duplicates or losses. The same failures by hand, and on Apache Kafka: tests/conformance."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_protocol.apis import ApiKey
from tests.deep_dive.failures import FAILURES, Failure, lose_produce_frames
from tests.deep_dive.pipeline import Pipeline
from tests.proxy import Drop

PORTION = 1_000


@pytest.mark.parametrize("failure", FAILURES, ids=lambda one: str(one.number))
def test_failures_1_to_7_exactly_once(tmp_path: Path, failure: Failure) -> None:
    """As the article states it; failure 4 doubles what is done outside the log, and only that."""
    with Pipeline(tmp_path) as pipeline:
        assert list(failure.inflict(pipeline, PORTION))
        pipeline.wait_until_billed()
        result = pipeline.audit()
    assert result.passed, result
    assert result.results == 2 * len(pipeline.fed)


# --- the article's first list: idempotence without transactions

IDEMPOTENT = "tests.deep_dive.idempotent_worker"


def test_first_list_1_a_lost_produce_is_no_duplicate(tmp_path: Path) -> None:
    """The same producer sends the same sequences again."""
    with Pipeline(tmp_path, 1, IDEMPOTENT) as pipeline:
        assert list(lose_produce_frames(pipeline, PORTION))
        result = pipeline.audit()
    assert result.passed, result


def test_first_list_2_a_restarted_producer_does_duplicate(tmp_path: Path) -> None:
    """The article: "We have a duplicate". A new producer id knows nothing of what the old one had
    written when it died before its offsets were committed. Nothing is lost."""
    with Pipeline(tmp_path, 1, IDEMPOTENT) as pipeline:
        committing = Drop(cut=False)
        pipeline.proxy.on(ApiKey.OFFSET_COMMIT, committing, client_id="billing-0")
        pipeline.feed(PORTION)
        committing.wait()
        pipeline.workers[0].kill()
        pipeline.workers[0].start()
        pipeline.wait_until_billed()
        result = pipeline.audit()
    assert result.duplicates > 0
    assert result.losses == result.wrong == 0, result


@pytest.mark.parametrize("point", ["before-data:3", "after-data:3", "answer-produce:2"])
def test_first_list_3_a_restarted_broker_is_no_duplicate(tmp_path: Path, point: str) -> None:
    """Sequences are in the log: the broker that comes back knows them."""
    with Pipeline(tmp_path, 1, IDEMPOTENT) as pipeline:
        pipeline.die_at(point, PORTION)
        result = pipeline.audit()
    assert result.passed, result

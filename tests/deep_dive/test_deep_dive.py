"""Real processes go through each failure that an article, the transaction deep dive, describes. The
tests check the system's reactions, and that an audit finds no duplicates or losses.
tests/conformance has the same failures as raw requests, also on Apache Kafka."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oncelog.testing.proxy import Drop
from oncelog_protocol.apis import ApiKey
from tests.deep_dive.__main__ import go_through
from tests.deep_dive.deaths import Death, die
from tests.deep_dive.failures import FAILURES, Failure, lose_produce_frames
from tests.deep_dive.outcomes import coordinator, group_coordinator, leader
from tests.deep_dive.pipeline import Pipeline

PORTION = 1_000


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: str(failure.number))
def test_failures_1_to_7_exactly_once(tmp_path: Path, failure: Failure) -> None:
    """The article's outcomes hold. Failure 4 doubles only effects outside the log."""
    with Pipeline(tmp_path) as pipeline:
        assert list(failure.inflict(pipeline, PORTION))
        pipeline.wait_until_billed()
        result = pipeline.audit()
    assert result.passed, result
    assert result.results == 2 * len(pipeline.fed)


def begin_all_anew(pipeline: Pipeline) -> None:
    """Start new instances of all workers. They abort the open transactions of the old instances and
    repeat the work."""
    for worker in pipeline.workers:
        worker.kill()
        worker.start()


# Patterns of the messages for an outcome that the article does not describe.
OTHERWISE = r"aborted|began anew|continued as|was sent again"


@pytest.mark.parametrize(
    ("point", "outcome"),
    [("after-data:8", leader), ("answer-txn-offset-commit", group_coordinator)],
    ids=["6", "7"],
)
def test_a_transaction_that_is_aborted_and_done_again_is_another_outcome(
    tmp_path: Path, point: str, outcome: Callable[[Death], Iterator[str]]
) -> None:
    """Everything is billed once here, but only after an abort. The article describes no abort."""
    with Pipeline(tmp_path) as pipeline:
        death = die(pipeline, point, PORTION, begin_all_anew)
        assert pipeline.audit().passed
    with pytest.raises(AssertionError, match=OTHERWISE):
        list(outcome(death))


def test_a_demo_with_another_outcome_than_in_the_article_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the workers begin anew after failure 5, `make demo-failures` reports that the outcome is
    not the article's. The purchases are still billed once."""

    def inflict(pipeline: Pipeline, portion: int) -> Iterator[str]:
        yield from coordinator(die(pipeline, "before-prepare", portion, begin_all_anew))

    with Pipeline(tmp_path) as pipeline:
        assert not go_through(pipeline, Failure(5, "", "", inflict))
        assert re.search(OTHERWISE, capsys.readouterr().out)
        assert pipeline.audit().passed


# --- the article's first list: idempotence without transactions

IDEMPOTENT = "tests.deep_dive.idempotent_worker"


def test_first_list_1_a_lost_produce_is_no_duplicate(tmp_path: Path) -> None:
    """The same producer sends the batch again with the same sequence numbers."""
    with Pipeline(tmp_path, 1, IDEMPOTENT) as pipeline:
        assert list(lose_produce_frames(pipeline, PORTION))
        result = pipeline.audit()
    assert result.passed, result


def test_first_list_2_a_restarted_producer_does_duplicate(tmp_path: Path) -> None:
    """The article: "We have a duplicate". The old producer died before it committed offsets. The
    new producer has another id, so the broker does not recognize the records that it sends again.
    Nothing is lost."""
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
    """The log has the sequence numbers, so a restarted broker knows them."""
    with Pipeline(tmp_path, 1, IDEMPOTENT) as pipeline:
        pipeline.die_at(point, PORTION)
        pipeline.start_broker()
        pipeline.wait_until_billed()
        result = pipeline.audit()
    assert result.passed, result

"""Every error code of Kafka has a class, and the class says what to do."""

from __future__ import annotations

import pytest

from oncelog_client.errors import (
    ERROR_CLASSES,
    AbortableError,
    CommitOutcomeUnknown,
    FatalError,
    KafkaError,
    ProducerFencedError,
    RetriableError,
    check,
    error_for,
)
from oncelog_protocol.errors import RETRIABLE, ErrorCode


@pytest.mark.parametrize("code", [code for code in ErrorCode if code != ErrorCode.NONE])
def test_every_code_makes_an_error_that_carries_it(code: ErrorCode) -> None:
    error = error_for(code, "details")
    assert error.code is code
    assert type(error) is ERROR_CLASSES[code]
    assert str(error) == f"{code.name}: details"


def test_what_kafka_calls_retriable_is_retriable_and_nothing_else() -> None:
    retriable = {code for code, kind in ERROR_CLASSES.items() if issubclass(kind, RetriableError)}
    assert retriable == RETRIABLE


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.PRODUCER_FENCED, ProducerFencedError),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ProducerFencedError),
        (ErrorCode.INVALID_TXN_STATE, FatalError),
        (ErrorCode.TRANSACTION_ABORTABLE, AbortableError),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, AbortableError),
    ],
)
def test_transactional_errors_say_abort_or_close(code: ErrorCode, kind: type[KafkaError]) -> None:
    assert isinstance(error_for(code), kind)


def test_only_the_code_none_raises_no_exception() -> None:
    check(ErrorCode.NONE)
    with pytest.raises(RetriableError):
        check(ErrorCode.NOT_COORDINATOR)


def test_a_code_of_the_future_is_still_an_error() -> None:
    assert error_for(29_999).code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "29999" in str(error_for(29_999))


def test_an_unknown_outcome_is_neither_retriable_nor_abortable_nor_fatal_by_class() -> None:
    # Code that handles RetriableError, AbortableError or FatalError would repeat, abort or drop a
    # transaction that may have been committed.
    assert CommitOutcomeUnknown.__bases__ == (KafkaError,)

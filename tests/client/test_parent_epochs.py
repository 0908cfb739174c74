"""The epoch of a group commit's parent in each request."""

from __future__ import annotations

from oncelog_client.transaction.parent_epochs import ParentEpochs
from oncelog_client.values import TransactionMember

GIVEN = TransactionMember("parent", 5, 0)


def at(epoch: int, producer_id: int = 5) -> TransactionMember:
    return TransactionMember("parent", producer_id, epoch)


def test_each_commit_has_the_epoch_after_the_last_one() -> None:
    epochs = ParentEpochs()
    for epoch in range(3):
        assert epochs.for_offsets(GIVEN) == at(epoch)
        assert epochs.for_commit(GIVEN) == at(epoch)
        epochs.committed(GIVEN, at(epoch), at(epoch + 1))


def test_a_repeated_commit_has_the_epoch_of_the_last_one() -> None:
    epochs = ParentEpochs()
    epochs.for_offsets(GIVEN)
    epochs.committed(GIVEN, GIVEN, at(1))
    assert epochs.for_commit(GIVEN) == GIVEN
    epochs.committed(GIVEN, GIVEN, at(1))
    assert epochs.for_offsets(GIVEN) == at(1)


def test_a_commit_without_a_response_is_repeated_with_its_own_epoch() -> None:
    epochs = ParentEpochs()
    epochs.committed(GIVEN, GIVEN, at(1))
    assert epochs.for_offsets(GIVEN) == at(1)
    assert epochs.for_commit(GIVEN) == at(1)
    assert epochs.for_commit(GIVEN) == at(1)


def test_the_returned_member_and_a_newer_instance_are_taken_as_they_are() -> None:
    epochs = ParentEpochs()
    epochs.committed(GIVEN, GIVEN, at(1))
    assert epochs.for_offsets(at(1)) == at(1)
    assert epochs.for_commit(at(7, producer_id=9)) == at(7, producer_id=9)


def test_parents_are_independent() -> None:
    epochs = ParentEpochs()
    epochs.committed(GIVEN, GIVEN, at(1))
    other = TransactionMember("another", 6, 0)
    assert epochs.for_offsets(other) == other
    assert epochs.for_offsets(GIVEN) == at(1)

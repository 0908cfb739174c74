"""Kafka's small files, byte for byte, and the reading of damaged ones."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.log.checkpoints import (
    MalformedCheckpoint,
    MetaProperties,
    decode_meta_properties,
    decode_numbers,
    decode_offsets,
    decode_partition_metadata,
    encode_lines,
    encode_meta_properties,
    encode_partition_metadata,
    offset_line,
)
from oncelog_server.log.leader_epochs import LeaderEpochs

TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=20)
OFFSETS = st.dictionaries(
    st.tuples(TOPICS, st.integers(0, 1000)), st.integers(0, 2**63 - 1), max_size=20
)


def encode_offsets(offsets: dict[tuple[str, int], int]) -> bytes:
    return encode_lines(map(offset_line, offsets, offsets.values()))


def test_an_offset_checkpoint_has_the_lines_of_kafkas_file() -> None:
    data = encode_offsets({("a", 0): 5, ("b-c", 12): 7})
    assert data == b"0\n2\na 0 5\nb-c 12 7\n"


@given(OFFSETS)
def test_offsets_are_decoded_as_they_were_encoded(offsets: dict[tuple[str, int], int]) -> None:
    assert decode_offsets(encode_offsets(offsets)) == offsets


@pytest.mark.parametrize("data", [b"", b"0\n", b"0\n0\n"])
def test_an_empty_checkpoint_has_no_entries(data: bytes) -> None:
    assert decode_offsets(data) == {}


@pytest.mark.parametrize(
    "data",
    [b"1\n0\n", b"x\n", b"0\n1\n", b"0\n2\na 0 5\n", b"0\n1\na 0\n", b"0\n1\na 0 x\n", b"\xff\xfe",
     b"0\nx\na 0 5\n", bytes(20)],
)  # fmt: skip
def test_a_broken_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedCheckpoint):
        decode_offsets(data)


@given(st.binary(max_size=60))
def test_damaged_bytes_raise_only_malformed_checkpoint(data: bytes) -> None:
    for decode, kind in (
        (decode_offsets, dict),
        (decode_partition_metadata, bytes),
        (decode_meta_properties, MetaProperties),
        (lambda data: decode_numbers(data, 2), list),
    ):
        with suppress(MalformedCheckpoint):
            assert isinstance(decode(data), kind)


def test_partition_metadata_has_the_lines_of_kafkas_file() -> None:
    data = encode_partition_metadata(bytes(range(16)))
    assert data.decode().splitlines() == ["version: 0", "topic_id: AAECAwQFBgcICQoLDA0ODw"]
    assert decode_partition_metadata(data) == bytes(range(16))
    with pytest.raises(MalformedCheckpoint):
        decode_partition_metadata(data.replace(b"0", b"1", 1))


def test_meta_properties_are_java_properties() -> None:
    meta = MetaProperties("AAECAwQFBgcICQoLDA0ODw", 3, "EBESExQVFhcYGRobHB0eHw")
    data = encode_meta_properties(meta)
    assert data.decode().splitlines() == [
        "version=1",
        "cluster.id=AAECAwQFBgcICQoLDA0ODw",
        "node.id=3",
        "directory.id=EBESExQVFhcYGRobHB0eHw",
    ]
    kafka = b"#\n#Sat Nov 21 06:00:00 UTC 2026\n" + data
    assert decode_meta_properties(kafka) == meta


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(entries)


def test_leader_epochs_have_the_lines_of_kafkas_file() -> None:
    data = epochs((0, 0), (2, 7)).encode()
    assert data == b"0\n2\n0 0\n2 7\n"
    assert list(LeaderEpochs.decode(data)) == [(0, 0), (2, 7)]


@pytest.mark.parametrize(
    ("entry", "after"),
    [
        ((3, 9), [(0, 0), (2, 7), (3, 9)]),
        ((2, 9), [(0, 0), (2, 7)]),  # ignored, because epoch 2 began at offset 7
        ((2, 5), [(0, 0), (2, 5)]),
        ((3, 7), [(0, 0), (3, 7)]),  # epoch 2 has no records, so it is removed
        ((1, 3), [(0, 0), (1, 3)]),  # epoch 1 begins at offset 3, so epoch 2 is removed
        ((4, 0), [(4, 0)]),
    ],
)
def test_epochs_and_offsets_increase_after_any_assigned_epoch(
    entry: tuple[int, int], after: list[tuple[int, int]]
) -> None:
    there = epochs((0, 0), (2, 7))
    there.assign(*entry)
    assert list(there) == after
    assert there.latest_epoch == after[-1][0]


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [(-1, None), (0, (0, 3)), (1, (0, 3)), (2, (2, 7)), (3, (2, 7)), (4, (4, 20)), (5, None)],
)
def test_an_epoch_ends_where_the_next_begins(epoch: int, answer: tuple[int, int] | None) -> None:
    assert epochs((0, 0), (2, 3), (4, 7)).end_offset_for(epoch, 20) == answer


def test_an_epoch_older_than_all_known_epochs_ends_where_the_first_begins() -> None:
    assert epochs((3, 5)).end_offset_for(1, 20) == (1, 5)
    assert epochs().end_offset_for(0, 20) is None


def test_s8_s17_a_truncated_leader_epoch_checkpoint_is_refused_or_empty() -> None:
    """A torn file must not count as a shorter list of epochs. With a shorter list, the broker would
    send readers back to an earlier offset (KIP-320)."""
    whole = epochs((1, 0), (2, 89), (7, 247)).encode()
    for size in range(len(whole)):
        try:
            assert not list(LeaderEpochs.decode(whole[:size]))
        except MalformedCheckpoint:
            continue


def test_epochs_are_truncated_from_both_ends() -> None:
    there = epochs((0, 0), (2, 3), (4, 7))
    assert there.truncate_from_end(7)
    assert not there.truncate_from_end(7)
    assert there.latest_epoch == 2
    assert there.truncate_from_start(2)
    assert list(there) == [(0, 2), (2, 3)]
    assert there.truncate_from_start(5)
    assert list(there) == [(2, 5)]
    assert not there.truncate_from_start(5)
    assert (there.epoch_at(4), there.epoch_at(5)) == (-1, 2)


def test_earlier_epochs_are_removed_if_the_log_start_is_the_start_of_an_epoch() -> None:
    there = epochs((0, 0), (2, 50), (3, 100), (5, 120))
    assert there.truncate_from_start(100)
    assert list(there) == [(3, 100), (5, 120)]
    assert there.end_offset_for(1, 200) == (1, 100)
    assert not there.truncate_from_start(100)

"""File and directory names, the same as Kafka's."""

from __future__ import annotations

import pytest

from oncelog_server.storage.layout import (
    deleted_directory,
    is_deleted_directory,
    parse_partition_directory,
    parse_segment_file,
    partition_directory,
    segment_file,
)


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("00000000000000000000.log", (0, ".log", "")),
        ("00000000000000000042.timeindex", (42, ".timeindex", "")),
        ("09223372036854775807.txnindex.deleted", (2**63 - 1, ".txnindex", ".deleted")),
        ("00000000000000000007.index.swap", (7, ".index", ".swap")),
        ("00000000000000000007.log.cleaned", (7, ".log", ".cleaned")),
        ("00000000000000000007.snapshot", (7, ".snapshot", "")),
        ("7.log", None),
        ("00000000000000000007.logs", None),
        ("leader-epoch-checkpoint", None),
        ("partition.metadata", None),
    ],
)
def test_names_of_segment_files(name: str, parsed: tuple[int, str, str] | None) -> None:
    found = parse_segment_file(name)
    assert found == parsed
    if found is not None:
        assert segment_file(*found) == name


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("orders-0", ("orders", 0)),
        ("a-b.c_d-12", ("a-b.c_d", 12)),
        ("__transaction_state-49", ("__transaction_state", 49)),
        ("orders", None),
        ("orders-", None),
        ("-1", None),
        ("orders-01", None),
        ("orders-0.0123456789abcdef0123456789abcdef-delete", None),
    ],
)
def test_names_of_partitions(name: str, parsed: tuple[str, int] | None) -> None:
    found = parse_partition_directory(name)
    assert found == parsed
    if found is not None:
        assert partition_directory(*found) == name


def test_a_deleted_partitions_directory_name_is_unique_and_at_most_255_bytes() -> None:
    unique = bytes(range(16))
    name = deleted_directory("orders", 3, unique)
    assert name == "orders-3.000102030405060708090a0b0c0d0e0f-delete"
    assert is_deleted_directory(name)
    assert not is_deleted_directory("orders-3")
    assert len(deleted_directory("t" * 249, 12345, unique)) == 255

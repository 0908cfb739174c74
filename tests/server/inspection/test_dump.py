"""`oncelog logs dump`: batches with records that cannot be printed, and the outcomes of
transactions."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.compression import Compression
from oncelog_protocol.records.control import EndTransactionMarker, build_marker_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.offline.commands import logs

LARGE = 4 << 20
NOW_MS = 1_700_000_000_000


def log_with_a_large_batch(folder: Path) -> Path:
    """Write a segment of three batches: a small record, a record of four MiB of zeros compressed to
    a few hundred bytes, and a small record."""
    path = folder / f"{0:020}.log"
    data = b""
    for offset, (value, compression) in enumerate(
        [
            (b"first", Compression.NONE),
            (bytes(LARGE), Compression.ZSTD),
            (b"last", Compression.NONE),
        ]
    ):
        batch = build_batch([NewRecord(NOW_MS, None, value)], compression=compression)
        batch[0:8] = offset.to_bytes(8)
        data += batch
    path.write_bytes(data)
    assert len(data) < LARGE // 100
    return path


def dumped(path: Path, *options: str) -> Result:
    return CliRunner().invoke(logs, ["dump", "--print-data-log", *options, str(path)])


def test_a_batch_larger_than_allowed_is_named_and_skipped(tmp_path: Path) -> None:
    """The command does not decompress a batch beyond `--max-batch-bytes`."""
    path = log_with_a_large_batch(tmp_path)
    result = dumped(path, "--max-batch-bytes", "100000")
    assert result.exit_code == 1
    assert f"{path}, byte " in result.stderr
    assert "offset 1: the records of the batch cannot be read" in result.stderr
    assert "more than 100000 bytes" in result.stderr
    assert "--max-batch-bytes" in result.stderr
    assert "payload: first" in result.stdout
    assert "payload: last" in result.stdout


def test_a_batch_within_max_batch_bytes_is_printed_whole(tmp_path: Path) -> None:
    path = log_with_a_large_batch(tmp_path)
    result = dumped(path)
    assert result.exit_code == 0, result.stderr
    assert f"valueSize: {LARGE}" in result.stdout


def test_a_batch_with_invalid_records_is_named(tmp_path: Path) -> None:
    """The command names the batch on standard error, prints the other batches, and exits with 1."""
    path = log_with_a_large_batch(tmp_path)
    data = bytearray(path.read_bytes())
    data[61] = 0x7F  # this byte is the length of the first record
    path.write_bytes(data)
    result = dumped(path)
    assert result.exit_code == 1
    assert f"{path}, byte 0, offset 0: the records of the batch cannot be read" in result.stderr
    assert "payload: last" in result.stdout


def transactional(offset: int, producer_id: int, committed: bool | None) -> bytearray:
    """Return a marker, or a batch with a record if `committed` is None."""
    if committed is None:
        batch = build_batch(
            [NewRecord(NOW_MS, None, b"v")],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
    else:
        batch = build_marker_batch(
            EndTransactionMarker(committed, 0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=NOW_MS,
        )
    batch[0:8] = offset.to_bytes(8)
    return batch


def outcomes_in(output: str) -> list[str]:
    batches = [line for line in output.splitlines() if line.startswith("baseOffset: ")]
    assert all(" magic: 2 " in line for line in batches)
    return [line.partition(" transaction: ")[2] for line in batches]


def test_a_directory_is_dumped_with_the_outcome_of_each_transaction(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    rows = [(7, None), (8, None), (9, None), (7, True), (8, False)]
    data = b"".join(transactional(offset, *row) for offset, row in enumerate(rows))
    (folder / f"{0:020}.log").write_bytes(data)
    result = CliRunner().invoke(logs, ["dump", str(folder)])
    assert result.exit_code == 0, result.stderr
    assert outcomes_in(result.stdout) == ["COMMITTED", "ABORTED", "OPEN", "", ""]


def test_segments_dumped_in_any_order_have_the_outcomes_of_their_own_markers(
    tmp_path: Path,
) -> None:
    """The first transaction ends in the first segment. The same producer aborts another transaction
    in the second segment."""
    segments = []
    for base, rows in ((0, [(7, None), (7, True)]), (2, [(7, None), (7, False)])):
        path = tmp_path / f"{base:020}.log"
        path.write_bytes(b"".join(transactional(base + n, *row) for n, row in enumerate(rows)))
        segments.append(str(path))
    in_order = CliRunner().invoke(logs, ["dump", *segments])
    assert outcomes_in(in_order.stdout) == ["COMMITTED", "", "ABORTED", ""]
    reversed_order = CliRunner().invoke(logs, ["dump", *reversed(segments)])
    assert outcomes_in(reversed_order.stdout) == ["ABORTED", "", "COMMITTED", ""]

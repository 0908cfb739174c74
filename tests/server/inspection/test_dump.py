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


def test_a_batch_within_the_bound_is_printed_whole(tmp_path: Path) -> None:
    path = log_with_a_large_batch(tmp_path)
    result = dumped(path)
    assert result.exit_code == 0, result.stderr
    assert f"valueSize: {LARGE}" in result.stdout


def test_a_batch_with_invalid_records_is_named(tmp_path: Path) -> None:
    """The command names the batch on standard error, prints the other batches, and exits with 1."""
    path = log_with_a_large_batch(tmp_path)
    data = bytearray(path.read_bytes())
    data[61] = 0x7F  # the length of the first record
    path.write_bytes(data)
    result = dumped(path)
    assert result.exit_code == 1
    assert f"{path}, byte 0, offset 0: the records of the batch cannot be read" in result.stderr
    assert "payload: last" in result.stdout


def test_a_directory_is_dumped_with_the_outcome_of_each_transaction(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    data, offset = b"", 0
    for producer_id, committed in [(7, None), (8, None), (9, None), (7, True), (8, False)]:
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
        data, offset = data + batch, offset + 1
    (folder / f"{0:020}.log").write_bytes(data)
    result = CliRunner().invoke(logs, ["dump", str(folder)])
    assert result.exit_code == 0, result.stderr
    batches = [line for line in result.stdout.splitlines() if line.startswith("baseOffset: ")]
    ends = [line.partition(" transaction: ")[2] for line in batches]
    assert ends == ["COMMITTED", "ABORTED", "OPEN", "", ""]
    assert all(" magic: 2 " in line for line in batches)

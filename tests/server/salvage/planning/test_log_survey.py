"""Missing offsets are a sign of compaction: those of whole batches, and those within a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_protocol.records.batch import build_batch, read_header, read_records
from oncelog_protocol.records.record import NewRecord
from oncelog_protocol.records.retained import build_empty_batch, build_retained_batch
from oncelog_server.offline.read_only_files import ReadOnlyFiles
from oncelog_server.salvage.planning.log_survey import LogSurvey


def batch(base_offset: int) -> bytes:
    """Return a batch of two records."""
    records = [NewRecord(1, b"key", b"value") for _ in range(2)]
    return bytes(build_batch(records, base_offset=base_offset))


def retained(base_offset: int) -> bytes:
    whole = batch(base_offset)
    return bytes(
        build_retained_batch(
            read_header(whole), list(read_records(whole, max_bytes=1 << 10))[:1], None
        )
    )


def emptied(base_offset: int) -> bytes:
    return bytes(build_empty_batch(read_header(batch(base_offset))))


@pytest.mark.parametrize(
    ("segments", "has_gaps"),
    [
        ([[batch(0), batch(2)], [batch(4)]], False),
        # The first segments of this log were deleted.
        ([[batch(6), batch(8)]], False),
        ([[batch(0), batch(4)]], True),
        ([[batch(0)], [batch(4)]], True),
        ([[batch(0), retained(2), batch(4)]], True),
        ([[batch(0), emptied(2), batch(4)]], True),
    ],
)
def test_missing_offsets_are_found(
    tmp_path: Path, segments: list[list[bytes]], has_gaps: bool
) -> None:
    files, survey = ReadOnlyFiles(), LogSurvey("topic")
    for batches in segments:
        base_offset = read_header(batches[0]).base_offset
        path = tmp_path / f"{base_offset:020}.log"
        path.write_bytes(b"".join(batches))
        file = files.open(str(path))
        survey.add(file, base_offset)
        file.close()
    assert survey.has_gaps is has_gaps
    assert survey.segments == len(segments)
    assert survey.log_end == survey.whole_end == read_header(segments[-1][-1]).next_offset

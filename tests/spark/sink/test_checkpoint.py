"""The parts of a checkpoint that a sink reads. An unreadable part is unknown, not an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oncelog_client.spark.sink.checkpoint import (
    noted_batch,
    query_id,
    sink_starts,
    source_end,
)
from tests.harness.logged import logged


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Return the checkpoint of a query at batch 10, as Spark stores it."""
    folder = tmp_path / "check point"
    (folder / "offsets").mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"q-1"}')
    for number in (9, 10):
        offsets = json.dumps({"purchases": {"0": number}})
        (folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{offsets}")
        (folder / "offsets" / f".{number}.crc").write_bytes(b"crc")
    return folder


def test_query_id_batch_and_source_end_are_read(checkpoint: Path) -> None:
    for location in (str(checkpoint), f"file:{checkpoint}", checkpoint.as_uri()):
        assert query_id(location) == "q-1"
        assert noted_batch(location) == 10
        assert source_end(location, 9) == '{"purchases":{"0":9}}'
        assert source_end(location, 11) is None


def test_the_end_of_the_sink_at_which_a_source_begins_is_read_from_batch_0(
    checkpoint: Path,
) -> None:
    assert sink_starts(str(checkpoint), "s") == ()
    first = '{"purchases":{"0":3},":sinkEnd":{"s":{"purchases":{"0":3}}}}'
    (checkpoint / "offsets" / "0").write_text(f"v1\n{{}}\n{first}")
    assert sink_starts(checkpoint.as_uri(), "s") == ('{"purchases":{"0":3}}',)
    assert sink_starts(str(checkpoint), "another") == ()
    assert source_end(str(checkpoint), 0) == '{"purchases":{"0":3}}'


def test_two_sources_with_different_ends_in_a_partition_cause_one_warning(
    checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (checkpoint / "offsets" / "10").open("a") as file:
        file.write('\n{"purchases":{"0":11}}')
    for _ in range(2):
        assert source_end(str(checkpoint), 10) is None
        assert source_end(str(checkpoint), 9) == '{"purchases":{"0":9}}'
    (said,) = logged(caplog, source_end.__module__)
    assert "two sources of the query read purchases-0 to different ends" in said
    assert "the sink does not store the end of this batch" in said


@pytest.mark.parametrize("location", [None, "hdfs://host/c", "s3a://bucket/c", "/no/such/folder"])
def test_an_unreadable_location_is_no_error(location: str | None) -> None:
    assert (query_id(location), noted_batch(location), source_end(location, 0)) == (None,) * 3
    assert sink_starts(location, "s") == ()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"id":7}', '{"id":""}'])
def test_metadata_without_a_query_id_are_no_error(checkpoint: Path, text: str) -> None:
    (checkpoint / "metadata").write_text(text)
    assert query_id(str(checkpoint)) is None

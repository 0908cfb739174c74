"""The plan of a recovery: no id or epoch goes back, and what is not certain is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.cluster import records
from oncelog_server.cluster.records import (
    PartitionRecord,
)
from oncelog_server.cluster.store import Snapshot
from oncelog_server.salvage.planning.directories import SurveyedDirectory
from oncelog_server.salvage.planning.known import Known, Uncertain
from oncelog_server.salvage.planning.restoration import restored_export
from tests.server.salvage.planning.sources import (
    BROKERS,
    OTHER_ID,
    WHOLE,
    directory,
    folder,
    known,
    next_producer_id,
    partition,
    plan,
    values,
)


@given(
    epochs=st.lists(st.integers(-1, 10_000), min_size=3, max_size=3),
    ids=st.lists(st.integers(-1, 10**9), min_size=3, max_size=3),
    revisions=st.lists(st.integers(1, 10**6), min_size=3, max_size=3),
    stops=st.lists(st.integers(0, 10**6), min_size=3, max_size=3),
    has_metadata=st.booleans(),
)
def test_nothing_goes_back(
    epochs: list[int], ids: list[int], revisions: list[int], stops: list[int], has_metadata: bool
) -> None:
    directories = [
        directory(
            node_id,
            folder(leader_epoch=epoch, producer_id=producer_id),
            revision=revision,
            clean_stop_epoch=stop,
        )
        for node_id, epoch, producer_id, revision, stop in zip(
            BROKERS, epochs, ids, revisions, stops, strict=True
        )
    ]
    made = plan(directories, known() if has_metadata else None, BROKERS)
    record = partition(made)
    assert record.leader_epoch >= max(epochs)
    assert next_producer_id(made) > max(ids)
    assert made.floor > max(*revisions, *stops)
    assert made.revision >= max(revisions)
    if has_metadata:
        assert record.leader_epoch >= 4
        assert next_producer_id(made) >= 5000
        assert made.floor > 40


ANOTHER = directory(3, folder(topic_id=OTHER_ID))

EMPTY = [directory(broker_id, folder(log_bytes=0)) for broker_id in BROKERS]

UNCERTAIN: list[tuple[str, list[SurveyedDirectory], Known | None, dict[str, Any]]] = [
    ("no data directory", [], known(), {}),
    ("broker 3 is missing", WHOLE[:2], known(), {}),
    ("--brokers", WHOLE, None, {}),
    ("broker 4 is missing", WHOLE, None, {"brokers": (1, 2, 3, 4)}),
    ("two directories are of broker 3", [*WHOLE, WHOLE[2]], known(), {}),
    ("different clusters", [*WHOLE[:2], directory(3, cluster_id="x")], known(), {}),
    ("given, and left out", WHOLE, known(), {"without": (2,)}),
    ("different topics of the name t", [*WHOLE[:2], ANOTHER], known(), {"brokers": BROKERS}),
    ("is not certain", [directory(1, folder(topic_id=None))], None, {"brokers": (1,)}),
    ("another topic of the name t", [*EMPTY[:2], ANOTHER], known(), {"brokers": BROKERS}),
    ("broker 1 has seen revision 50: name all", WHOLE, known(), {}),
    ("damaged", WHOLE, known({"topics/x": 1}), {}),
]


@pytest.mark.parametrize(("reason", "directories", "found", "options"), UNCERTAIN)
def test_what_is_not_certain_is_refused(
    reason: str, directories: list[SurveyedDirectory], found: Known | None, options: dict[str, Any]
) -> None:
    with pytest.raises(Uncertain, match=reason):
        plan(directories, found, **options)


def test_an_export_stays_as_it_is_without_its_leases() -> None:
    leased = {records.RESTORED: records.RestoredRecord(3)}
    made = restored_export(known(leased))
    assert made.revision == 40
    assert partition(made) == PartitionRecord(BROKERS, BROKERS, 2, 4)
    assert next_producer_id(made) == 5000
    assert records.RESTORED not in values(made.writes)
    assert records.CLUSTER not in values(made.writes)
    with pytest.raises(Uncertain, match="no record of a cluster"):
        restored_export(Known(Snapshot(3, ()), is_last=True, source="export"))

"""The plan that `oncelog storage recover` shows, and its result."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from oncelog_server.log.checkpoints import decode_meta_properties
from oncelog_server.salvage.commands import storage
from oncelog_server.storage.layout import META_PROPERTIES
from tests.server.log.cleaner.compacting import Compacting
from tests.server.salvage.planning.test_evidence import folder, written

CLUSTER = re.compile(r"cluster ([A-Za-z0-9_-]{22})")


def _recover(path: Path, *flags: str) -> str:
    result = CliRunner().invoke(storage, ["recover", "--data", str(path), *flags])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_plan_shows_no_random_cluster_id(tmp_path: Path) -> None:
    driver: Compacting = written()
    folder(tmp_path, driver)
    plan = _recover(tmp_path)
    assert CLUSTER.search(plan) is None
    assert "a cluster with a new id" in plan
    done = CLUSTER.search(_recover(tmp_path, "--yes"))
    assert done is not None
    meta = decode_meta_properties((tmp_path / META_PROPERTIES).read_bytes())
    assert meta.cluster_id == done[1]


def test_a_plan_uses_the_singular_for_a_single_topic(tmp_path: Path) -> None:
    folder(tmp_path, written())
    plan = _recover(tmp_path)
    assert "1 topic with 1 partition\n" in plan
    assert "1 folder of partitions" in plan
    assert "with 1 partition: found by its folders" in plan

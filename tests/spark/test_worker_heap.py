"""The garbage collection of a reused worker skips the worker's modules."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

# Each program runs in its own process, as Spark's workers do. It uses the data source three times,
# as Spark does: each time the objects of the data source arrive, then Spark's daemon collects
# garbage. Automatic collections are off, because their moments are random.
USES = """
import gc, json, pickle
gc.disable()
from oncelog_client.spark.data_source import OncelogDataSource
from oncelog_client.spark.prompt_worker import PromptWorker
arriving = pickle.dumps(PromptWorker())
frozen = []
for _ in range(3):
    {use}
    frozen.append(gc.get_freeze_count())
    gc.collect()
print(json.dumps(frozen))
"""
TASK = "pickle.loads(arriving)"
KINDS = [TASK, "OncelogDataSource({})", f"{TASK}; {TASK}"]
NAMES = ["task", "plan", "read task: source and reader"]


def frozen_after_each_use(use: str, environment: dict[str, str]) -> list[int]:
    found = subprocess.run(
        [sys.executable, "-c", USES.format(use=use)],
        env=os.environ | environment,
        capture_output=True,
        check=True,
    )
    counts: list[int] = json.loads(found.stdout)
    return counts


@pytest.mark.parametrize("use", KINDS, ids=NAMES)
def test_the_heap_of_a_reused_worker_is_frozen_at_its_second_use_only(use: str) -> None:
    first, second, third = frozen_after_each_use(use, {"SPARK_REUSE_WORKER": "1"})
    assert first == 0
    assert second == third > 10_000


@pytest.mark.parametrize("use", KINDS, ids=NAMES)
def test_the_heap_of_any_other_process_is_not_frozen(use: str) -> None:
    assert frozen_after_each_use(use, {}) == [0, 0, 0]

"""Pipelines for tests with faults, on oncelog and on Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.sink_rights import sink_rights
from oncelog_client.spark.source.plan.source_rights import source_rights
from tests.harness.broker import Oncelog
from tests.harness.cluster import Cluster
from tests.harness.etcd import Etcd
from tests.spark.fail_points import FailPoints
from tests.spark.faults.line import Line
from tests.spark.faults.running import audited
from tests.spark.guarded import GuardedOncelog
from tests.spark.pipeline import Pipeline
from tests.spark.session import Spark

# A micro-batch has at most six purchases, three from each of two partitions. So both tasks write,
# and a test has several micro-batches.
LIMIT = {"maxOffsetsPerTrigger": "6"}
# The sink commits by record, although oncelog could commit the transactions of all tasks at once.
RECORD = {"sinkProtocol": "record"}
# The broker's fixture and the commit of a kind of line, if they are not `broker` and RECORD.
BROKERS = {"kafka": "kafka", "secured": "guarded"}
COMMITS = {"group": CommitKind.GROUP, "secured": CommitKind.GROUP}


@pytest.fixture
def pipeline(broker: Oncelog | Cluster, name: str, checkpoint: str) -> Pipeline:
    """A pipeline on oncelog, with one decision for all tasks of a micro-batch."""
    return Pipeline(broker.address, name, checkpoint, source_options=LIMIT)


@pytest.fixture(scope="module")
def mortal_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, real_etcd: Etcd
) -> Iterator[Cluster]:
    """Three brokers that tests kill and stop. Each test leaves them running."""
    settings = {"oncelog.etcd.prefix": f"/{request.node.name}/"}
    with Cluster(tmp_path_factory.mktemp("mortal"), real_etcd, settings=settings) as running:
        yield running


def secured(pipeline: Pipeline, broker: GuardedOncelog) -> Pipeline:
    """Return the pipeline for a user of SASL_SSL with exactly the rights of the documentation."""
    rights = (
        *source_rights([pipeline.purchases]),
        *sink_rights(pipeline.name, [pipeline.invoices, pipeline.shipments], CommitKind.GROUP),
    )
    user = broker.user(pipeline.name, [right for right in rights if not right.is_optional])
    return pipeline._replace(
        options={**pipeline.options, **user}, source_options={**pipeline.source_options, **user}
    )


@pytest.fixture(scope="module")
def lines(
    request: pytest.FixtureRequest, spark_driver: Spark, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Line]]:
    """A function that returns the pipeline of all tests of a module. After a failed test, it
    returns a new pipeline."""
    kind = request.param
    broker = request.getfixturevalue(BROKERS.get(kind, "broker"))
    options: Mapping[str, str] = RECORD if kind == "record" else {}
    open_lines: list[Line] = []
    with ExitStack() as stack:

        def line() -> Line:
            if not open_lines or open_lines[-1].failed:
                name = f"{kind}-{uuid4().hex[:8]}"
                checkpoint = str(tmp_path_factory.mktemp("checkpoint"))
                pipeline = Pipeline(broker.address, name, checkpoint, options, LIMIT)
                if kind == "secured":
                    pipeline = secured(pipeline, broker)
                audit = stack.enter_context(audited(pipeline))
                session, fail_points = spark_driver.session, spark_driver.fail_points
                commits = COMMITS.get(kind, CommitKind.RECORD)
                open_lines.append(Line(pipeline, audit, session, fail_points, commits))
                open_lines[-1].go_on()
            return open_lines[-1]

        yield line


@pytest.fixture
def line(lines: Callable[[], Line], spark: SparkSession, fail_points: FailPoints) -> Line:
    """A pipeline without an unfinished batch: its next batch needs no recovery."""
    return lines()

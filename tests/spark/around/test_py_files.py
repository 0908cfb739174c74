"""The zip of our packages for Spark's executors, in a Spark job. All Python workers run in a Python
that has PyArrow, but not our packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow

from examples.purchases_spark.cluster import python_with
from oncelog_client.spark.executors_zip import write_executors_zip
from tests.spark.session import jvm_options
from tests.spark.topics import Topics

PROGRAM = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": sys.argv[2]}
rows = spark.read.format("oncelog").options(**options).load()
print(sorted(bytes(row.value) for row in rows.collect()))
places = spark.sparkContext.parallelize([0]).map(lambda _: __import__("oncelog_client").__file__)
print(*places.collect())
"""


def test_a_job_reads_with_oncelog_only_in_the_zip(
    has_java: None, topics: Topics, name: str, tmp_path: Path
) -> None:
    topics.create(name)
    topics.append(name, [b"one", b"two"])
    program, archive = tmp_path / "job.py", tmp_path / "executors.zip"
    program.write_text(PROGRAM)
    write_executors_zip(archive)
    python = python_with(tmp_path / "python", pyarrow)
    submit = [
        *(str(Path(sys.executable).with_name("spark-submit")), "--master", "local[1]"),
        *("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"),
        *("--conf", f"spark.driver.extraJavaOptions={jvm_options()}"),
        *("--py-files", str(archive), str(program), topics.bootstrap, name),
    ]
    environment = {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable}
    said = subprocess.run(
        submit, env=os.environ | environment, capture_output=True, text=True, timeout=120
    )
    rows, place = said.stdout.splitlines() or ["", said.stderr]
    assert rows == "[b'one', b'two']", said.stderr
    assert "executors.zip/oncelog_client/__init__.py" in place

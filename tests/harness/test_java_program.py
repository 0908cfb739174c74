"""A Java program of the matrix starts with the archive of its classes, as soon as there is one."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from tests.harness.kafka.compiled import compiled
from tests.harness.kafka.java_program import ENDED, JavaProgram
from tests.harness.waiting import wait_until

_SOURCE = """
public final class Waiting {
    public static void main(String[] arguments) throws Exception {
        System.out.println("ready " + arguments[0]);
        while (System.in.read() >= 0) { }
    }
}
"""


def test_a_program_runs_with_the_archive_of_its_classes(kafka_jars: str, tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    shutil.copy(next(Path(kafka_jars).parent.glob("slf4j-api-*.jar")), jars)
    source = tmp_path / "Waiting.java"
    source.write_text(_SOURCE)
    program = compiled(source, "")
    options = ["-Xlog:class+load"]

    def new() -> JavaProgram:
        log = tmp_path / "output.txt"
        return JavaProgram(log, "Waiting", ["now"], jars=jars, program=program, options=options)

    def ready(times: int) -> None:
        is_ready = partial(_has_started, waiting, times)
        wait_until(is_ready, f"the start number {times}")

    with new() as waiting:
        ready(1)
        waiting.archive_classes(partial(ready, 2))
        assert waiting.is_running
        ready(3)
        last_start = waiting.said().rpartition("ready now\n")[0].rpartition("ready now\n")[2]
        assert "Waiting source: shared objects file (top)" in last_start
        # The archive exists, so nothing is made again.
        waiting.archive_classes(partial(ready, 100))
        assert waiting.stop() in ENDED


def _has_started(waiting: JavaProgram, times: int) -> bool:
    return waiting.said().count("ready now") >= times

"""The driver's JVM serves many tests. What a tool leaves behind ends with the tool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.harness.broker import Oncelog
from tests.harness.kafka.driver import JavaDriver
from tests.harness.processes import thread_names
from tests.harness.waiting import wait_until

ADMIN_THREAD = "kafka-admin-cli"  # Linux keeps 15 characters of a name


@pytest.fixture(scope="module")
def driver(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaDriver]:
    with closing(JavaDriver(tmp_path_factory.mktemp("java"))) as found:
        yield found


def admin_threads(driver: JavaDriver) -> int:
    assert driver._process is not None
    return thread_names(driver._process.pid).count(ADMIN_THREAD)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("transactions", ("describe", "--transactional-id", "none")),
        ("configs", ("--describe", "--entity-type", "topics", "--entity-name", "none")),
    ],
    ids=["refused", "done"],
)
def test_a_tool_leaves_no_admin_client(
    driver: JavaDriver, running_oncelog: Oncelog, tool: str, arguments: tuple[str, ...]
) -> None:
    """These tools do not close their client, because the end of their JVM ends it."""
    driver.tool(tool, "--bootstrap-server", running_oncelog.address, *arguments, check=False)
    wait_until(lambda: admin_threads(driver) == 0, "the admin client has ended", 10)

"""The modules that short commands must not import, so that they start quickly. The time of a start
varies too much on CI, so these tests check the imports that cost the time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from oncelog.testing.ports import free_ports
from tests.harness.broker import Oncelog

# The import of each of these modules takes milliseconds. A command that lists topics needs none of
# them.
_HEAVY: Final = {
    # asyncio imports it to resolve a host name. A command that lists topics connects only to the
    # address on its command line, which is an IP address here.
    "concurrent.futures.thread",
    "cramjam",
    "crc32c",
    "dataclasses",
    "difflib",
    "email",
    "encodings.idna",
    "hashlib",
    "importlib.metadata",
    "json",
    "oncelog_client.consumer",
    "oncelog_client.core.consumer_config",
    "oncelog_client.io.fetcher",
    "oncelog_client.producer",
    "oncelog_client.core.producer_config",
    "oncelog_client.core.security_config",
    "oncelog_client.io.authentication",
    "oncelog_client.io.sender",
    "oncelog_client.spark",
    "oncelog_protocol.records",
    "oncelog_protocol.security",
    "oncelog_protocol.tls",
    "oncelog_server",
    "pathlib",
    "pyarrow",
    "pyspark",
    "rich",
    "ssl",
    "urllib",
}
_MESSAGES: Final = "oncelog_protocol.messages."

_PROGRAM: Final = """
import sys
from oncelog_client.cli import oncelog
oncelog.main(sys.argv[1:], "oncelog", standalone_mode=False)
modules = sorted(sys.modules)
import json
print(json.dumps(modules))
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    (port,) = free_ports(1)
    # As on most computers, the advertised name differs from the name on the command line.
    settings = {"advertised.listeners": f"PLAINTEXT://localhost:{port}"}
    running = Oncelog(tmp_path_factory.mktemp("imports"), settings)
    running.port = port
    with running:
        yield f"127.0.0.1:{port}"


def imported(*words: str) -> set[str]:
    """Run a command line in a process. Return the modules that the process has imported."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("words", [("topic", "list"), ("topics", "--list")])
def test_listing_topics_imports_only_what_it_needs(broker: str, words: Sequence[str]) -> None:
    modules = imported(*words, "--bootstrap-server", broker)
    assert not sorted(modules & _HEAVY)
    # The command sends two requests: ApiVersions and Metadata.
    messages = {name.removeprefix(_MESSAGES) for name in modules if name.startswith(_MESSAGES)}
    assert messages <= {"api_versions", "find_coordinator", "metadata"}


@pytest.mark.parametrize("words", [("group", "list"), ("txn", "blocking"), ("topic", "--help")])
def test_other_short_commands_import_only_what_they_need(broker: str, words: Sequence[str]) -> None:
    modules = imported(*words, "--bootstrap-server", broker)
    # These commands address a broker by its id, so they resolve its advertised name.
    unneeded = _HEAVY - {"concurrent.futures.thread", "encodings.idna"}
    assert not sorted(modules & (unneeded | {"csv", "oncelog_client.core.membership"}))


def test_help_imports_no_command() -> None:
    modules = imported("--help")
    assert "asyncio" not in modules
    assert not sorted(modules & _HEAVY)
    assert not {name for name in modules if name.startswith("oncelog_client.cli.topic")}


def test_asyncio_has_tls_if_ssl_was_imported_before() -> None:
    program = (
        "import ssl; from oncelog_client.cli.event_loop import import_asyncio; import_asyncio([]);"
        "import asyncio; import asyncio.sslproto as made; print(made.ssl is ssl)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


def test_ssl_can_be_imported_after_an_asyncio_without_tls() -> None:
    program = (
        "from oncelog_client.cli.event_loop import import_asyncio; import_asyncio([]);"
        "import sys; assert 'ssl' not in sys.modules; import ssl; print(ssl.SSLContext.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "SSLContext\n", done.stderr


@pytest.mark.parametrize(
    ("words", "has_tls"),
    [
        (["topic", "list"], False),
        (["topic", "create", "orders", "--partitions", "3"], False),
        (["topic", "list", "--command-config", "client.properties"], True),
        (["topic", "list", "--command-config=client.properties"], True),
        (["consume", "orders", "--command-property", "security.protocol=SSL"], True),
        (["produce", "orders", "--producer-property", "security.protocol=SSL"], True),
        (["--topic", "orders", "--consumer.config", "client.properties"], True),
        (["-c", "client.properties"], True),
    ],
)
def test_asyncio_has_tls_if_the_command_line_may_have_settings_of_it(
    words: Sequence[str], has_tls: bool
) -> None:
    program = (
        "import sys; from oncelog_client.cli.event_loop import import_asyncio\n"
        "import_asyncio(sys.argv[1:])\n"
        "import asyncio.sslproto as made; print(made.ssl is not None)"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert done.stdout == f"{has_tls}\n", done.stderr

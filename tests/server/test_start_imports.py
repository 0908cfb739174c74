"""Modules that a start must not import, because listening does not need them (docs/architecture.md,
"The time of a start")."""

from __future__ import annotations

import subprocess
import sys

import pytest

from oncelog_server.handlers import NAMES

START = """
import sys
from oncelog_server import serve
serve._keep_rich_out()
import oncelog_server.broker, oncelog_server.config, oncelog_server.environment
import oncelog_server.observe.logs
from oncelog_server.handlers import all_handlers
all_handlers()
print(*sorted(name for name, module in sys.modules.items() if module is not None))
"""


@pytest.fixture(scope="module")
def imported() -> set[str]:
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "crc32c",
        "email",
        "importlib.metadata",
        "javaproperties",
        "multiprocessing",
        "oncelog_client",
        "oncelog_protocol.codegen",
        "oncelog_server.cleaning",
        "oncelog_server.faults",
        "oncelog_server.observe.page",
        "rich",
        "zipfile",
    ],
)
def test_a_start_does_not_import(imported: set[str], module: str) -> None:
    assert not {name for name in imported if name == module or name.startswith(f"{module}.")}


def test_no_handler_is_imported_before_its_first_request(imported: set[str]) -> None:
    assert not {f"oncelog_server.handlers.{name}" for name in NAMES} & imported
    assert "oncelog_protocol.messages.produce" not in imported

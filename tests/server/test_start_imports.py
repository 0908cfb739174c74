"""Modules that a start must not import, because listening does not need them (docs/internals.md,
"The time of a start")."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from oncelog_server.handlers import NAMES

# The broker ends as soon as it serves. Its late imports begin 300 ms later.
START = """
import signal, sys
from oncelog_server.serve import run_process

async def announce(broker):
    found = [name for name, module in sys.modules.items() if module is not None]
    print("imported", *sorted(found))
    signal.raise_signal(signal.SIGTERM)
    return ""

run_process({"port": 0, "data": sys.argv[1]}, announce=announce)
"""
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    data = tmp_path_factory.mktemp("start") / "data"
    done = subprocess.run(
        [sys.executable, "-c", START, str(data)],
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("imported "))
    return set(line.split()[1:])


@pytest.mark.parametrize(
    "module",
    [
        "bz2",
        "crc32c",
        "cryptography",
        "difflib",
        "email",
        "h11",
        "hashlib",
        "hmac",
        "importlib.metadata",
        "javaproperties",
        "lzma",
        "multiprocessing",
        "oncelog_client",
        "oncelog_protocol.codegen",
        "oncelog_protocol.security.scram_credential",
        "oncelog_protocol.tls",
        "oncelog_server.cleaning",
        "oncelog_server.cluster.acl_changes",
        "oncelog_server.cluster.isr_changes",
        "oncelog_server.cluster.partition_additions",
        "oncelog_server.cluster.quota_changes",
        "oncelog_server.cluster.recently_fenced",
        "oncelog_server.cluster.scram_changes",
        "oncelog_server.cluster.security_records",
        "oncelog_server.cluster.topic_alterations",
        "oncelog_server.coordinator_sharing",
        "oncelog_server.etcd",
        "oncelog_server.etcd_gateway",
        "oncelog_server.exit_monitor",
        "oncelog_server.faults",
        "oncelog_server.fetcher",
        "oncelog_server.isr_duty",
        "oncelog_server.links.coordinator_calls",
        "oncelog_server.links.fetcher",
        "oncelog_server.links.link_security",
        "oncelog_server.links.partition_adding",
        "oncelog_server.metadata.barrier",
        "oncelog_server.metadata.isr_writes",
        "oncelog_server.metadata.user_writes",
        "oncelog_server.network.admissions",
        "oncelog_server.network.listener_tls",
        "oncelog_server.network.secured_admission",
        "oncelog_server.network.tls_transport",
        "oncelog_server.observe.page",
        "oncelog_server.partition.follower_fetch",
        "oncelog_server.partition.follower_log",
        "oncelog_server.partition.isr_updates",
        "oncelog_server.quotas.client_quota",
        "oncelog_server.quotas.definitions",
        "oncelog_server.quotas.entities",
        "oncelog_server.quotas.limits",
        "oncelog_server.replication",
        "oncelog_server.requests.authentication",
        "oncelog_server.security.acls",
        "oncelog_server.security.denials",
        "oncelog_server.security.sasl",
        "oncelog_server.security.standard_authorizer",
        "oncelog_server.settings.listener_security",
        "oncelog_server.tokens",
        "oncelog_server.transaction.pointers",
        "oncelog_server.transaction.remote",
        "rich",
        "shutil",
        "typing_extensions",
        "zipfile",
    ],
)
def test_a_start_does_not_import(imported: set[str], module: str) -> None:
    assert find_spec(module) is not None, "no such module"
    assert not {name for name in imported if name == module or name.startswith(f"{module}.")}


def test_no_handler_is_imported_before_its_first_request(imported: set[str]) -> None:
    assert not {f"oncelog_server.handlers.{name}" for name in NAMES} & imported
    assert "oncelog_protocol.messages.produce" not in imported

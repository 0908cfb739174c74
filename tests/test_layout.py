"""A package is pure (it only computes) or an edge (it acts), never both. import-linter refuses
imports by which a pure package could act."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.repository import (
    PACKAGES,
    ROOT,
    imported_modules,
    nodes,
    package_modules,
    parsed,
    shown,
    tracked,
)

pytestmark = pytest.mark.usefixtures("without_collections")

# Imports of each package besides the standard library. `pip install oncelog` installs all of them,
# and `pip install oncelog-client` those of its own packages.
DEPENDENCIES: dict[str, set[str]] = {
    "oncelog": set(),
    "oncelog_protocol": {"cramjam", "crc32c"},
    "oncelog_client": {"click", "rich"},
    "oncelog_server": {
        "click",
        "crc32c",
        "h11",
        "javaproperties",
        "msgspec",
        "structlog",
        "uvloop",
    },
    "pyspark_oncelog": set(),
}
# Further imports of the Spark data source. The extra `spark` of both distributions installs them.
SPARK = "oncelog_client.spark"
SPARK_DEPENDENCIES = {"pyarrow", "pyspark"}
# The same for the extra `otel`.
OTEL = "oncelog_client.otel"
OTEL_DEPENDENCIES = {"opentelemetry-api"}
# The same for the extra `test` of the distribution with the broker.
TESTING = "oncelog.testing"
TESTING_DEPENDENCIES = {"pytest"}
# The extra `security`, by the packages that import it.
SECURITY_DEPENDENCIES = {"cryptography", "joserfc"}
SECURITY = {
    "oncelog_protocol.security": {"cryptography"},
    "oncelog_server.security": {"joserfc", "cryptography"},
}


# Packages that act, or that assemble acting parts, each with the reason. The purity contract lists
# all others.
EDGES = {
    "oncelog": "re-exports the public names",
    "oncelog.__main__": "a process",
    "oncelog.testing": "starts brokers for tests",
    "oncelog_client": "re-exports the public names",
    "oncelog_client.admin": "waits for responses",
    "oncelog_client.io": "owns sockets, waits for responses",
    "oncelog_client.cli": "a process with files and a terminal",
    "oncelog_client.kafka_tools": "processes with files and a terminal",
    "oncelog_client.consumer": "waits for responses",
    "oncelog_client.transaction": "waits for responses",
    "oncelog_client.producer": "waits for responses",
    "oncelog_client.otel": "waits for responses",
    "oncelog_client.bare_connection": "a socket for a health check",
    "oncelog_client.health": "asks a broker over a socket of its own",
    "oncelog_client.process": "signals and standard streams of a process",
    "oncelog_client.program": "a process",
    "oncelog_client.spark": "runs in Spark's processes",
    "oncelog_client.sync": "a thread with an event loop",
    "oncelog_protocol": "holds the version",
    "oncelog_protocol.tls": "reads the files of keys and certificates, and calls OpenSSL",
    "oncelog_server": "holds the version",
    "oncelog_server.__main__": "a process",
    "oncelog_server.broker": "puts the parts together",
    "oncelog_server.broker_parts": "puts the parts together",
    "oncelog_server.broker_security": "assembles edges, and calls them",
    "oncelog_server.coordinator_sharing": "connects the coordinators with the links",
    "oncelog_server.environment": "clocks, disk, store and randomness of the computer",
    "oncelog_server.cleaning": "compacts logs in a process of its own",
    "oncelog_server.clock": "reads the time",
    "oncelog_server.config": "reads files and the environment",
    "oncelog_server.secret_files": "reads the files that settings name",
    "oncelog_server.secret_sources": "reads those files by the settings of a start",
    "oncelog_server.dev": "a process with a temporary folder",
    "oncelog_server.dispatch": "collects the handlers",
    "oncelog_server.data_directory": "locks and reads the data directory",
    "oncelog_server.durable_logs": "waits for the disk",
    "oncelog_server.dynamic_settings": "reads the limit of descriptors, and writes log events",
    "oncelog_server.etcd": "calls etcd",
    "oncelog_server.exit_monitor": "starts and is a process",
    "oncelog_server.faults": "ends the process at a point that a test chooses",
    "oncelog_server.foundation": "makes timers, tasks and log events",
    "oncelog_server.garbage": "switches the garbage collector of the process",
    "oncelog_server.handlers": "calls the broker services",
    "oncelog_server.hosting": "waits for changes, and writes log events",
    "oncelog_server.replica_failures": "waits for the metadata store",
    "oncelog_server.replication": "connects the fetchers and the ISR with the broker",
    "oncelog_server.late": "imports modules that the start does not need",
    "oncelog_server.links": "sends to other brokers",
    "oncelog_server.metadata": "keeps metadata in sqlite",
    "oncelog_server.migration": "its commands print and copy data directories",
    "oncelog_server.network": "owns sockets",
    "oncelog_server.broker_views": "asks the disk for its free space",
    "oncelog_server.broker_services": "refers to all parts of the broker, also those that act",
    "oncelog_server.operating_system": "its module os_files uses the disk",
    "oncelog_server.observe": "writes the log of events, responds to scrapes",
    "oncelog_server.offline": "its commands print, its module read_only_files reads the disk",
    "oncelog_server.salvage": "its commands print and change files on disk",
    "oncelog_server.processes": "starts, watches and stops processes",
    "oncelog_server.producer_id_supply": "waits for the metadata store",
    "oncelog_server.refused_work": "writes the log of events",
    "oncelog_server.request_tasks": "starts tasks",
    "oncelog_server.self_fencing": "writes log events",
    "oncelog_server.serve": "a process",
    "oncelog_server.shared_store": "owns sockets",
    "oncelog_server.startup": "reads the data directory, waits for the metadata store",
    "oncelog_server.loop_timers": "has the event loop call it at a deadline",
    "oncelog_server.tokens": "fetches keys over the network",
    "oncelog_server.background_tasks": "runs the timed duties",
    "pyspark_oncelog": "the name that Spark imports",
}


# Packages with modules that share a test, and a note that says where that test is.
TESTED_TOGETHER = {
    "oncelog_protocol.messages": "every API and version against construct and kio: tests/protocol",
    "oncelog_server.transaction.caller_role": "with InitProducerId: tests/server/transaction",
    "oncelog_server.transaction.commands.keep_prepared": "with InitProducerId: test_two_phase.py",
    "oncelog_server.transaction.described": "with DescribeTransactions: tests/server/handlers",
    "oncelog_server.transaction.grouped.aborting": "with offsets: remote/test_offset_commits.py",
    "oncelog_server.transaction.grouped.local_owners": "with groups: grouped/test_coordinator.py",
    "oncelog_server.transaction.grouped.owners": "on one and three brokers: grouped",
    "oncelog_server.transaction.remote": "on three brokers: tests/server/transaction/remote",
    "oncelog_server.hosting": "with the broker: hosting/test_replica_manager.py",
    "oncelog_server.coordinator.runtime": "with both coordinators: tests/server/transaction",
    "oncelog_server.partition.partition_read": "with the partition: tests/server/partition",
    "oncelog_server.handlers": "through real clients: tests/conformance; some also alone",
    "oncelog_server.salvage": "on data directories: tests/faults/test_recover.py",
    "oncelog_server.log.loaded": "with recovery: tests/server/log/test_recovery.py",
    "oncelog_server.inspection": "with damage: test_verify.py; beside Kafka's tool: test_dump.py",
}


def contracts() -> dict[str, dict[str, list[str]]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {row["id"]: row for row in settings["tool"]["importlinter"]["contracts"]}


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    folders = [str(root / folder.relative_to(ROOT).parent) for folder in PACKAGES.values()]
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
    )


def planted(tmp_path: Path, plants: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Lint a copy of the packages, and return the linter's result. `plants`: by module, the line to
    append to that module."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for folder in PACKAGES.values():
        shutil.copytree(
            folder,
            tmp_path / folder.relative_to(ROOT),
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    files = dict(package_modules())
    for module, line in plants.items():
        with (tmp_path / files[module].relative_to(ROOT)).open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
    return lint_imports(tmp_path)


def test_the_purity_contract_refuses_an_impure_import_in_every_package_it_names(
    tmp_path: Path,
) -> None:
    pure = contracts()["purity"]["source_modules"]
    result = planted(tmp_path, dict.fromkeys(pure, "import time"))
    assert result.returncode != 0
    blind = [module for module in pure if f"{module} -> time" not in result.stdout]
    assert not blind, result.stdout


def test_the_purity_contract_refuses_every_import_that_it_forbids(tmp_path: Path) -> None:
    forbidden = contracts()["purity"]["forbidden_modules"]
    lines = "\n".join(f"import {module}" for module in forbidden)
    result = planted(tmp_path, {"oncelog_server.refusal": lines})
    blind = [
        name for name in forbidden if f"oncelog_server.refusal -> {name} " not in result.stdout
    ]
    assert not blind, result.stdout


def test_the_purity_contract_names_packages() -> None:
    """A module directly in a top-level package may be pure or an edge by itself. A deeper package
    is pure or an edge as a whole."""
    packages = {module for module, path in package_modules() if path.stem == "__init__"}
    pure = contracts()["purity"]["source_modules"]
    offences = [module for module in pure if module not in packages and module.count(".") > 1]
    assert not offences, offences


def test_every_module_is_pure_or_an_edge_and_none_is_both() -> None:
    pure = set(contracts()["purity"]["source_modules"])
    assert not pure & set(EDGES)
    modules = {module for module, _ in package_modules()}
    assert not set(EDGES) - modules, "EDGES has modules that do not exist"
    offences = [
        module
        for module in modules
        if not any(part in pure | set(EDGES) for part in lineage(module))
    ]
    assert not offences, f"neither pure nor an edge: {sorted(offences)}"


def lineage(module: str) -> list[str]:
    """Return a module and its packages. The top-level package is left out, unless it is `module`
    itself."""
    parts = module.split(".")
    whole = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
    return whole[1:] or whole


def test_client_and_server_cannot_see_each_other(tmp_path: Path) -> None:
    result = planted(
        tmp_path,
        {
            "oncelog_client": "import oncelog_server.refusal",
            "oncelog_server.refusal": "import oncelog_client",
            "oncelog_protocol": "import oncelog_client",
        },
    )
    for broken in (
        "oncelog_client -> oncelog_server.refusal",
        "oncelog_server.refusal -> oncelog_client",
        "oncelog_protocol -> oncelog_client",
    ):
        assert broken in result.stdout


def test_a_cycle_of_imports_is_found_even_if_only_types_are_imported(tmp_path: Path) -> None:
    types = "if TYPE_CHECKING:\n    from oncelog_server.log.log import PartitionLog"
    circle = planted(tmp_path, {"oncelog_server.log.refusals": types})
    assert "No cycles are allowed in oncelog_server.log." in circle.stdout, circle.stdout


LOG = "oncelog_server.log"
# Names of variables and attributes that refer to a log.
NAMES_OF_LOGS = {"_log", "log", "opened"}


def names_in(target: ast.expr) -> list[str]:
    """Return `["a", "b", "c"]` for `a.b.c`, `a.b[0].c` and `a.b().c`."""
    match target:
        case ast.Name(name):
            return [name]
        case ast.Attribute(value, name):
            return [*names_in(value), name]
        case ast.Subscript(value) | ast.Call(value) | ast.Starred(value):
            return names_in(value)
        case ast.Tuple(elements) | ast.List(elements):
            return [name for element in elements for name in names_in(element)]
    return []


def changed_names(node: ast.AST) -> list[list[str]]:
    """Return the names on the path to each object that a statement changes. `a.b.c = 1` changes the
    object at `["a", "b"]`."""
    targets: list[ast.expr] = []
    match node:
        case ast.Assign(targets=found) | ast.Delete(targets=found):
            targets = found
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            targets = [target]
    targets = [e for t in targets for e in (t.elts if isinstance(t, ast.Tuple | ast.List) else [t])]
    return [
        names_in(target.value)
        for target in targets
        if isinstance(target, ast.Attribute | ast.Subscript)
    ]


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("log.last_flush_ms = 1", [["log"]]),
        ("partition._log.recovery_point += 1", [["partition", "_log"]]),
        ("log.deleted[0] = 1", [["log", "deleted"]]),
        ("del log.segments[0]", [["log", "segments"]]),
        ("a, log.b = 1, 2", [["log"]]),
        ("log = 1", []),
        ("self._log = log", [["self"]]),
    ],
)
def test_what_a_statement_changes_is_recognized(line: str, changed: list[list[str]]) -> None:
    assert changed_names(ast.parse(line).body[0]) == changed


def test_only_the_log_changes_attributes_of_a_log() -> None:
    """The modules `log.log` and `log.segments` are the log. All other code calls its methods."""
    offences = [
        f"{shown(path)}:{node.lineno}"
        for module, path in package_modules()
        if module.startswith("oncelog_server.") and module not in (f"{LOG}.log", f"{LOG}.segments")
        for node in nodes(path)
        if isinstance(node, ast.stmt)
        and any(NAMES_OF_LOGS & set(names) for names in changed_names(node))
    ]
    assert not offences, offences


def test_only_the_partition_package_uses_the_log_of_a_partition() -> None:
    offences = [
        f"{shown(path)}:{node.lineno}: {ast.unparse(node)}"
        for module, path in package_modules()
        if module.startswith("oncelog_server.") and module.split(".")[1] != "partition"
        for node in nodes(path)
        if isinstance(node, ast.Attribute)
        and node.attr in {"log", "_log"}
        and any(name.endswith("partition") for name in names_in(node.value))
    ]
    assert not offences, offences


def imported(path: Path) -> set[str]:
    """Return the top-level names of the absolute imports that run."""
    names: set[str] = set()
    for node in nodes_that_run(parsed(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add((node.module or "").partition(".")[0])
    return names


def nodes_that_run(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes outside `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for otherwise in node.orelse:
                yield from (otherwise, *nodes_that_run(otherwise))
        else:
            yield from (node, *nodes_that_run(node))


def project(file: str) -> dict[str, Any]:
    """Return the `[project]` table of one of the two distributions."""
    table: dict[str, Any] = tomllib.loads((ROOT / file).read_text(encoding="utf-8"))["project"]
    return table


def names(requirements: list[str]) -> set[str]:
    """Return the names of the packages, without versions and markers."""
    return {re.split(r"[>=;]", text)[0] for text in requirements}


def test_packages_import_only_what_their_installation_brings() -> None:
    whole, client = project("pyproject.toml"), project("client/pyproject.toml")
    thin = DEPENDENCIES["oncelog_protocol"] | DEPENDENCIES["oncelog_client"]
    assert names(client["dependencies"]) == thin
    assert names(whole["dependencies"]) == thin | DEPENDENCIES["oncelog_server"]
    assert names(whole["optional-dependencies"]["spark"]) == SPARK_DEPENDENCIES
    assert names(whole["optional-dependencies"]["otel"]) == OTEL_DEPENDENCIES
    assert names(whole["optional-dependencies"]["test"]) == TESTING_DEPENDENCIES
    assert names(whole["optional-dependencies"]["security"]) == SECURITY_DEPENDENCIES
    offences = []
    for module, path in package_modules():
        package = module.partition(".")[0]
        allowed = DEPENDENCIES[package] | set(PACKAGES) | sys.stdlib_module_names
        if module.startswith(SPARK):
            allowed = allowed | SPARK_DEPENDENCIES
        if module == OTEL:
            allowed = allowed | {"opentelemetry"}
        if module.startswith(TESTING):
            allowed = allowed | TESTING_DEPENDENCIES
        for importing, extra in SECURITY.items():
            if importing in lineage(module):
                allowed = allowed | extra
        offences += [f"{shown(path)}: {name}" for name in sorted(imported(path) - allowed)]
    assert not offences, offences


def test_no_pure_package_imports_tls(tmp_path: Path) -> None:
    """The package tls imports ssl, so the purity contract refuses the package itself, too."""
    result = planted(
        tmp_path, {"oncelog_protocol.security.pem": "import oncelog_protocol.tls.contexts"}
    )
    assert "oncelog_protocol.security is not allowed to import ssl" in result.stdout, result.stdout


def test_both_distributions_have_the_same_fields_for_their_common_parts() -> None:
    """Each of the two has its own pyproject.toml. Only fields about the broker may differ."""
    whole, client = project("pyproject.toml"), project("client/pyproject.toml")
    for field in ("license", "license-files", "authors", "requires-python", "urls", "scripts"):
        assert client[field] == whole[field], field
    assert client["dependencies"] == whole["dependencies"][: len(client["dependencies"])]
    for extra in ("otel", "security", "spark"):
        assert client["optional-dependencies"][extra] == whole["optional-dependencies"][extra]
    assert set(client["classifiers"]) <= set(whole["classifiers"])
    for paper in client["license-files"]:
        assert (ROOT / "client" / paper).read_bytes() == (ROOT / paper).read_bytes(), paper


def test_older_pip_commands_with_the_extra_server_still_work() -> None:
    assert project("pyproject.toml")["optional-dependencies"]["server"] == []


def test_every_pure_module_is_named_by_a_test() -> None:
    """A test file `test_<module>.py` or an import in a test names the module. Edges need
    no such test, because tests of whole processes cover them."""
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    stems = {path.stem for path in tests}
    named = {name for path in tests for name in imported_modules(path)}
    pure = set(contracts()["purity"]["source_modules"])
    offences = [
        module
        for module, path in package_modules()
        if path.stem != "__init__"
        and pure.intersection(lineage(module))
        and not TESTED_TOGETHER.keys() & set(lineage(module))
        and f"test_{path.stem}" not in stems
        and module not in named
    ]
    assert not offences, "\n".join(["modules without a test:", *offences])


def test_the_harness_imports_no_test() -> None:
    harness = [path for path in tracked("tests/harness/*.py") if path.stem[:5] != "test_"]
    assert harness
    offences = [
        f"{shown(path)}: {name}"
        for path in harness
        for name in sorted(imported_modules(path))
        if name.startswith("tests.") and not name.startswith("tests.harness")
    ]
    assert not offences, offences

"""The project's own rules that no linter has: sizes, names, and the modules that may open files."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from oncelog_protocol.apis import APIS
from tests.assertions import asserting, bare_tests, called_by, functions
from tests.harness.repository import (
    PACKAGES,
    ROOT,
    nodes,
    package_modules,
    parsed,
    shown,
    tracked,
)

pytestmark = pytest.mark.usefixtures("without_collections")

CODE = ("protocol", "server", "client", "tests", "examples", "benchmarks", "docker", "docs")

COLUMNS = 100
# A limit, not a goal: at 400 lines, review asks if the file should be two modules.
FILE_LINES = 600
FUNCTION_LINES = 60
HANDLER_LINES = 80

BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
BANNED_CLASS = re.compile(r"(Manager|Helper|Helpers|Util|Utils|Misc)$")
# Names of Kafka itself, which users of Kafka know.
OF_KAFKA = {"ReplicaManager", "replica_manager", "test_replica_manager"}

# Functions that a test may call instead of an assertion, with the file of each. Each can fail the
# test.
CHECKS = {
    "audit": "tests/copiers/running.py",
    "check_invariants": "tests/server/log/driver.py",
    "check_same": "tests/harness/kafka/compared.py",
    "check_visible": "tests/spark/record_commit/conftest.py",
    "eventually": "tests/harness/client_reading.py",
    "exchange": "tests/faults/exchanges.py",
    "go_on": "tests/spark/faults/line.py",
    "play": "tests/simulation/cluster/stage.py",
    "poll_until": "tests/harness/client_reading.py",
    "random_folder": "tests/faults/recoveries.py",
    "settled": "tests/client/cli/conftest.py",
    "visible": "tests/spark/record_commit/conftest.py",
    "wait_until": "tests/harness/waiting.py",
}

# Modules that touch the computer, and may therefore call open(). Others get bytes or a `Files`.
MAY_OPEN = {
    "oncelog.testing": "starts brokers with folders of their own",
    "oncelog_client.cli": "reads and writes the files the user names",
    "oncelog_client.health": "reads the server.properties of a broker on this computer",
    "oncelog_client.process": "the process: its standard streams",
    "oncelog_protocol.tls": "reads the files of keys and certificates",
    "oncelog_server.cleaning.child": "asks the system how long it waited for a processor",
    "oncelog_server.config": "reads server.properties",
    "oncelog_server.migration.copies": "makes the copy of a data directory durable",
    "oncelog_server.metadata.reserve": "keeps space for deletions on a full disk",
    "oncelog_server.metadata.text_copy": "keeps the copy of the metadata store",
    "oncelog_server.offline.read_only_files": "is the disk of a log that is only read",
    "oncelog_server.salvage.changes": "rebuilds the metadata of a data directory",
    "oncelog_server.serve": "the process: data directory and lock",
    "oncelog_server.tokens.endpoint": "reads the issuer's keys from a file",
    "oncelog_server.data_directory.lock": "keeps a second process out",
    "oncelog_server.operating_system.socket_path": "opens the data directory",
    "oncelog_server.operating_system.kafka_lock": "keeps Apache Kafka out",
    "oncelog_server.operating_system.file_modes": "creates files that only their owner may read",
    "oncelog_server.operating_system.os_files": "is the disk",
}

# Text that no file may contain: package indexes, because a computer's settings choose them, and
# paths of the computers on which the project was written.
HOSTS = ("pypi" + ".org", "python" + "hosted.org", "repo1." + "maven", "docker" + ".io/")
MACHINE_PATHS = ("/ro" + "ot/", "/ho" + "me/", "/Us" + "ers/", "/wo" + "rk/")


@cache
def source_files() -> list[Path]:
    return sorted(
        path
        for folder in CODE
        for path in (ROOT / folder).rglob("*.py")
        if "__pycache__" not in path.parts
    )


def refuse(offences: list[str], rule: str) -> None:
    assert not offences, f"{rule}:\n  " + "\n  ".join(offences)


def test_lines_have_at_most_100_columns() -> None:
    offences = [
        f"{shown(path)}:{number}: {len(line)}"
        for path in source_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > COLUMNS
    ]
    refuse(offences, f"lines of more than {COLUMNS} columns")


def test_files_have_at_most_600_lines() -> None:
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in source_files()}
    offences = [f"{shown(path)}: {size}" for path, size in sizes.items() if size > FILE_LINES]
    refuse(offences, f"files of more than {FILE_LINES} lines: move a part into a module of its own")


def test_functions_have_at_most_60_lines_and_handlers_80() -> None:
    offences = []
    for path in source_files():
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                handler = path.parent.name == "handlers" and node.name == "handle"
                if size > (HANDLER_LINES if handler else FUNCTION_LINES):
                    offences.append(f"{shown(path)}:{node.lineno}: {node.name} has {size}")
    refuse(offences, "functions too long: move a part into a function of its own")


@cache
def with_bare_tests() -> dict[Path, dict[str, set[str]]]:
    """Return the tests that assert nothing themselves, by their file, with what they call."""
    found = {
        path: bare_tests(parsed(path)) for path in source_files() if path.name.startswith("test_")
    }
    return {path: tests for path, tests in found.items() if tests}


def test_every_test_asserts_something() -> None:
    offences = [
        f"{shown(path)}: {name} calls {', '.join(sorted(called))}"
        for path in with_bare_tests()
        for name, called in bare_tests(parsed(path), CHECKS.keys()).items()
    ]
    refuse(offences, "tests that assert nothing and call none of CHECKS")


@cache
def called_beside_bare_tests() -> set[str]:
    """Return the names of all functions that the files of `with_bare_tests` call."""
    return {name for path in with_bare_tests() for name in called_by(parsed(path))}


@pytest.mark.parametrize("name", CHECKS)
def test_every_function_of_checks_can_fail_a_test(name: str) -> None:
    module = parsed(ROOT / CHECKS[name])
    # The function asserts, or calls a function that does. A timeout fails a test, too.
    assert name in asserting(module) or "timeout" in called_by(functions(module)[name])
    # The row is necessary: a file with tests that assert nothing themselves calls the function.
    assert name in called_beside_bare_tests()


@pytest.mark.parametrize(
    ("body", "is_bare"),
    [
        ("assert x", False),
        ("with pytest.raises(ValueError): f()", False),
        ("check(x)", False),
        ("local()", False),
        ("g(x)", True),
        ("raise ValueError", True),
        ("pass", True),
    ],
)
def test_a_test_without_an_assertion_is_found(body: str, is_bare: bool) -> None:
    module = ast.parse(f"def test_a():\n    {body}\ndef local():\n    raise AssertionError\n")
    assert ("test_a" in bare_tests(module, {"check"})) is is_bare


def test_no_module_or_class_has_a_name_that_says_nothing() -> None:
    offences = [
        shown(path)
        for path in source_files()
        if path.stem not in OF_KAFKA
        and BANNED_NAMES & {path.stem, path.parent.name, *path.stem.split("_")}
    ]
    for path in source_files():
        for node in nodes(path):
            if not isinstance(node, ast.ClassDef) or node.name in OF_KAFKA:
                continue
            if BANNED_CLASS.search(node.name):
                offences.append(f"{shown(path)}:{node.lineno}: class {node.name}")
    refuse(offences, "names that say nothing")


def test_only_edges_open_files() -> None:
    offences = []
    for module, path in package_modules():
        if any(module == edge or module.startswith(f"{edge}.") for edge in MAY_OPEN):
            continue
        for node in nodes(path):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if called in {"open", "io.open", "os.open", "os.fdopen"}:
                offences.append(f"{shown(path)}:{node.lineno}: {called}(")
    refuse(offences, "files opened outside the edges")


def test_only_the_clock_module_reads_the_wall_clock() -> None:
    """Code gets the time as `now_ms` from `clock.py`, so tests can simulate it."""
    offences = []
    for module, path in package_modules():
        if module in {"oncelog_server.clock", "oncelog_client.io.clock"}:
            continue
        for node in nodes(path):
            if isinstance(node, ast.Attribute):
                named = ast.unparse(node)
                if named in {"time.time", "time.time_ns", "datetime.now", "datetime.datetime.now"}:
                    offences.append(f"{shown(path)}:{node.lineno}: {named}")
    refuse(offences, "the wall clock read outside clock.py")


def lets_a_port_go(tree: ast.AST) -> list[int]:
    """Return the lines of `with` blocks that bind a socket only to learn a free port."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        and any("getsockname" in ast.unparse(part) for part in node.body)
        and all(
            (isinstance(part, ast.Assign | ast.AnnAssign) and "getsockname" in ast.unparse(part))
            or (isinstance(part, ast.Expr) and ".bind(" in ast.unparse(part))
            or isinstance(part, ast.Return)
            for part in node.body
        )
    ]


def test_a_free_port_stays_reserved_until_its_use() -> None:
    """Another process may take a port that a program has bound and let go. The functions of
    oncelog.testing.ports keep it."""
    offences = [
        f"{shown(path)}:{line}"
        for path in source_files()
        for line in lets_a_port_go(ast.parse(path.read_text(encoding="utf-8")))
    ]
    refuse(offences, "use free_ports or reserve_port of oncelog.testing.ports")


def test_only_two_modules_draw_random_numbers() -> None:
    """A test can simulate the random numbers of these two modules. They have generators
    of their own, and do not use the global generator of `random`, which belongs to the user's
    program."""
    drawing = {"oncelog_server.environment", "oncelog_client.io.randomness"}
    offences = []
    for module, path in package_modules():
        for node in nodes(path):
            if isinstance(node, ast.Import):
                named = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                named = {node.module or ""}
            else:
                continue
            if "random" in named and module not in drawing:
                offences.append(f"{shown(path)}:{node.lineno}: random")
    refuse(offences, f"random numbers drawn outside {sorted(drawing)}")


def test_every_module_says_what_it_is_for() -> None:
    offences = [
        shown(path)
        for _, path in package_modules()
        if parsed(path).body and not ast.get_docstring(parsed(path))
    ]
    refuse(offences, "modules without a docstring")


def handlers() -> list[str]:
    """Return the modules that serve an API, without modules that several APIs share."""
    folder = PACKAGES["oncelog_server"] / "handlers"
    marked = re.compile(r"^API = ", re.MULTILINE)
    return sorted(path.stem for path in folder.glob("*.py") if marked.search(path.read_text()))


def versions_in(docstring: str) -> set[int]:
    """Return the versions in the header of a handler.

    The first line names all versions (`EndTxn v0-5: ...`), or the header has a line for each
    version (`v0, v1: ...`).
    """
    title, *lines = docstring.splitlines()
    whole = re.match(r"\w+ v(\d+)(?:-(\d+))?\b", title)
    if whole:
        return set(range(int(whole[1]), int(whole[2] or whole[1]) + 1))
    heads = (re.match(r"((?:v\d+(?:, )?)+): ", line) for line in lines)
    return {int(number) for head in heads if head for number in re.findall(r"\d+", head[1])}


@pytest.mark.parametrize("name", handlers())
def test_a_handler_header_lists_exactly_its_versions(name: str) -> None:
    module = import_module(f"oncelog_server.handlers.{name}")
    assert versions_in(inspect.getdoc(module) or "") == set(APIS[module.API].versions)


def test_no_tracked_file_names_a_package_index_or_a_machine() -> None:
    offences = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        offences += [f"{shown(path)}: {word}" for word in (*HOSTS, *MACHINE_PATHS) if word in text]
    refuse(offences, "addresses that belong to a machine")


@pytest.mark.parametrize(
    "name", ["client", "server", "spark", "connector", "dev", "docs", "build", "demo", "uv"]
)
def test_every_pin_has_a_version_and_hashes_and_no_address(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    entries = re.sub(r"\\\n\s*", "", text).splitlines()
    offences = [
        entry.split(" ")[0]
        for entry in entries
        if not entry.startswith("#")
        and not re.match(r"[a-z0-9._-]+==\S+ (; [^#]*?)?--hash=sha256:[0-9a-f]{64}", entry)
    ]
    refuse(offences, "pins without a version or hashes")
    assert "://" not in text, "pins name no address, because each computer chooses its index"

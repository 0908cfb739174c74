"""The repository: its packages, files and syntax trees."""

from __future__ import annotations

import ast
import gc
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "oncelog_protocol": ROOT / "protocol/oncelog_protocol",
    "oncelog_server": ROOT / "server/oncelog_server",
    "oncelog": ROOT / "client/oncelog",
    "oncelog_client": ROOT / "client/oncelog_client",
    "pyspark_oncelog": ROOT / "client/pyspark_oncelog",
}


def tracked(*patterns: str) -> list[Path]:
    """Return the files that git tracks and that match a pattern. Without a pattern, return all."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def package_modules() -> Iterator[tuple[str, Path]]:
    """Yield the dotted name and the file of every module of the distributions."""
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            yield ".".join((package, *(part for part in parts if part != "__init__"))), path


@pytest.fixture(scope="module")
def without_collections() -> Iterator[None]:
    """Switch garbage collection off during a module's tests. All syntax trees stay alive, and
    collections would take four fifths of the time."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Return the nodes of the file's syntax tree."""
    return list(ast.walk(parsed(path)))


def imported_modules(path: Path) -> set[str]:
    """Return the modules that a file imports. For `from a.b import c`, return `a.b` and also
    `a.b.c`, which may be a module."""
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def shown(path: Path) -> str:
    """Return the path as messages show it, from the root of the project."""
    return str(path.relative_to(ROOT))

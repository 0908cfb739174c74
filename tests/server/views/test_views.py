"""Handlers and metrics show the state of coordinators only through frozen read models."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Final

import msgspec
import pytest

from oncelog_server import handlers, metrics, observe, views
from oncelog_server.observe import page

INSIDES: Final = {"runtime", "shards", "table"}
SERVICES: Final = {"services", "self.services", "self._services"}


@pytest.mark.parametrize("package", [handlers, metrics, observe])
def test_handlers_and_metrics_do_not_use_the_insides_of_coordinators(package: object) -> None:
    paths = list(Path(package.__file__).parent.glob("*.py"))  # type: ignore[attr-defined]  # object
    assert paths
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                assert node.attr not in INSIDES, f"{path.name}: {node.attr}"


def test_describe_and_list_handlers_use_views_and_not_partitions() -> None:
    """Describe and List handlers read views. The handler of ListTransactions is an exception:
    `listing_error` looks for partitions that are missing, and no view shows them."""
    folder = Path(handlers.__file__).parent
    paths = [*folder.glob("describe_*.py"), folder / "list_groups.py", folder / "metadata.py"]
    paths.append(Path(page.__file__))
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "partitions":
                assert ast.unparse(node.value) not in SERVICES, f"{path.name}: {node.lineno}"


def test_views_are_frozen_values() -> None:
    structs = [
        value
        for module in iter_modules(views.__path__)
        for value in vars(import_module(f"{views.__name__}.{module.name}")).values()
        if isinstance(value, type)
        and issubclass(value, msgspec.Struct)
        and value.__module__.startswith(views.__name__)
    ]
    assert structs
    for struct in structs:
        assert struct.__struct_config__.frozen, struct.__name__

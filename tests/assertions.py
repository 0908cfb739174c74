"""Finds tests that assert nothing, neither in the test nor in a function that it calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from typing import Final

Function = ast.FunctionDef | ast.AsyncFunctionDef

# Functions of pytest that fail a test.
_OF_PYTEST: Final = frozenset({"raises", "warns", "fail"})


def functions(module: ast.Module) -> dict[str, Function]:
    """Return the functions and methods of a module by name."""
    return {
        node.name: node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def called_by(function: ast.AST) -> Iterator[str]:
    """Yield the names of the functions that a function calls. For `wire.call()` it is `call`."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute):
                yield called.attr
            elif isinstance(called, ast.Name):
                yield called.id


def asserting(module: ast.Module, checks: Set[str] = frozenset()) -> set[str]:
    """Return the functions of a module that assert. Each has an assertion, or calls one of `checks`
    or another asserting function of the module."""
    found = functions(module)
    calls = {name: set(called_by(function)) for name, function in found.items()}
    failing = _OF_PYTEST | checks
    names = {
        name
        for name, function in found.items()
        if not failing.isdisjoint(calls[name]) or any(map(_fails_a_promise, ast.walk(function)))
    }
    while more := {
        name for name in found if name not in names and not names.isdisjoint(calls[name])
    }:
        names |= more
    return names


def _fails_a_promise(node: ast.AST) -> bool:
    if isinstance(node, ast.Raise):
        return "AssertionError" in {
            name.id for name in ast.walk(node) if isinstance(name, ast.Name)
        }
    return isinstance(node, ast.Assert)


def bare_tests(module: ast.Module, checks: Set[str] = frozenset()) -> dict[str, set[str]]:
    """Return the tests of a module that assert nothing, with the names that they call."""
    names = asserting(module, checks)
    return {
        name: set(called_by(function))
        for name, function in functions(module).items()
        if name.startswith("test_") and name not in names
    }

"""Makes defects by rules. Each defect changes one condition, comparison, return or constant of a
source file, or drops one statement.

Annotations, decorators, class options and texts are left alone, because they decide nothing or only
affect speed. Code that only a type checker or a program's start runs is left alone as well.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from tests.mutants.mutant import Mutant

_NEGATED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
}  # fmt: skip
_NEXT_TO: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
_EXTREMES: Final = {"min": "max", "max": "min"}
# By annotated return type: the constants that mutants return in place of the value of a `return`
# statement. Mutants of functions with other types return None.
_CONSTANTS: Final = {"bool": ("True", "False"), "int": ("0",), "str": ('""',)}
_DROPPED: Final = ast.Continue | ast.Break | ast.Raise | ast.AugAssign | ast.Delete
_LEFT_ALONE: Final = {"annotation", "returns", "decorator_list"}
# Conditions that are false when a test imports a module.
_NEVER: Final = {"TYPE_CHECKING", "__name__ == '__main__'"}

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Edit(NamedTuple):
    """A change of the source: `node` becomes `text`."""

    kind: str
    node: ast.expr | ast.stmt
    text: str


def mutants_of(file: str, source: str, tests: tuple[str, ...] = ()) -> list[Mutant]:
    """Return all mutants of a file, each once, in the order of its lines. A mutant's name is
    `file:line`."""
    found: dict[str, Mutant] = {}
    for edit in sorted(_edits(ast.parse(source), None), key=lambda edit: edit.node.lineno):
        mutated = _spliced(source, edit)
        if mutated != source and mutated not in found:
            name = f"{file}:{edit.node.lineno}"
            found[mutated] = Mutant(name, edit.kind, file, source, mutated, tests)
    return list(found.values())


def diff_of(mutant: Mutant) -> list[str]:
    """Return the lines that differ: with `-` in the source and with `+` in the mutant."""
    lines = difflib.unified_diff(mutant.old.splitlines(), mutant.new.splitlines(), n=0, lineterm="")
    return [line for line in list(lines)[2:] if not line.startswith("@@")]


def _spliced(source: str, edit: Edit) -> str:
    """Return the source with this edit. A syntax tree counts columns in bytes of UTF-8."""
    lines = source.encode().splitlines(keepends=True)
    node = edit.node
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    after = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(lines[node.end_lineno :])
    return (before + edit.text.encode() + after).decode()


def _edits(node: ast.AST, function: _Function | None) -> Iterator[Edit]:
    """Yield the edits of `node` and of all nodes within it. `function` contains `node`."""
    if isinstance(node, ast.JoinedStr | ast.Assert):
        return
    if isinstance(node, ast.If) and ast.unparse(node.test) in _NEVER:
        return
    if isinstance(node, _Function):
        function = node
    yield from _of_condition(node)
    yield from _of_value(node)
    yield from _of_statement(node, function)
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return  # a negative number is an operator with a constant
    for field, value in ast.iter_fields(node):
        if field in _LEFT_ALONE or (field == "keywords" and isinstance(node, ast.ClassDef)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _edits(child, function)


def _of_condition(node: ast.AST) -> Iterator[Edit]:
    tests: list[ast.expr] = []
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        tests = [node.test]
    elif isinstance(node, ast.comprehension):
        tests = node.ifs
    elif isinstance(node, ast.match_case) and node.guard is not None:
        tests = [node.guard]
    for test in tests:
        yield Edit("condition negated", test, f"not ({ast.unparse(test)})")
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        swapped = ast.unparse(ast.BoolOp(other, node.values))
        yield Edit("`and` and `or` swapped", node, f"({swapped})")
    if isinstance(node, ast.Compare):
        for kind, table in (("comparison negated", _NEGATED), ("boundary off by one", _NEXT_TO)):
            for place, op in enumerate(node.ops):
                if type(op) in table:
                    ops = [*node.ops[:place], table[type(op)](), *node.ops[place + 1 :]]
                    changed = ast.unparse(ast.Compare(node.left, ops, node.comparators))
                    yield Edit(kind, node, f"({changed})")


def _of_value(node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in _EXTREMES:
            yield Edit("`min` and `max` swapped", node.func, _EXTREMES[node.func.id])
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        sign = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        swapped = ast.unparse(ast.BinOp(node.left, sign, node.right))
        yield Edit("`+` and `-` swapped", node, f"({swapped})")
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield Edit("constant changed", node, str(not node.value))
    elif isinstance(node, ast.Constant | ast.UnaryOp):
        number = _whole_number(node)
        if number is not None:
            for other in (number + 1, number - 1):
                yield Edit("constant changed", node, str(other) if other >= 0 else f"({other})")


def _whole_number(node: ast.Constant | ast.UnaryOp) -> int | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) else None
    if not isinstance(node.op, ast.USub) or not isinstance(node.operand, ast.Constant):
        return None
    number = _whole_number(node.operand)
    return None if number is None else -number


def _of_statement(node: ast.AST, function: _Function | None) -> Iterator[Edit]:
    if isinstance(node, _DROPPED):
        yield Edit("statement dropped", node, "pass")
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield Edit("call dropped", node, "pass")
    elif isinstance(node, ast.Assign):
        # An object without one of its initial values is unusable, so any test finds this defect.
        first = function is None or function.name == "__init__"
        stored = all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
        if stored and not first:
            yield Edit("assignment dropped", node, "pass")
    elif isinstance(node, ast.Return):
        if node.value is None:
            yield Edit("return dropped", node, "pass")
        elif function is not None:
            said = "" if function.returns is None else ast.unparse(function.returns)
            for constant in _CONSTANTS.get(said, ("None",)):
                yield Edit("return of a constant", node, f"return {constant}")

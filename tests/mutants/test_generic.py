"""Mutants that rules make (`tests/mutants/generic.py`) in the cores, the parts of the code in
`CORES`. Each rule makes the change that it names. A mutant that no test finds is reported."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.excused import EXCUSED, difference
from tests.mutants.generic import diff_of, mutants_of
from tests.mutants.mutate import (
    CORES,
    all_tests,
    core_of,
    drawn_from,
    mutants_in,
    run,
    source_of,
)
from tests.mutants.trial import ROOT

KINDS = {
    "condition negated": ("if a:\n    b\n", "if not (a):\n    b\n"),
    "comparison negated": ("x = a == b\n", "x = (a != b)\n"),
    "boundary off by one": ("x = a < b\n", "x = (a <= b)\n"),
    "`and` and `or` swapped": ("x = a and b\n", "x = (a or b)\n"),
    "`min` and `max` swapped": ("x = max(a, b)\n", "x = min(a, b)\n"),
    "`+` and `-` swapped": ("x = a + b\n", "x = (a - b)\n"),
    "constant changed": ("x = -1\n", "x = (-2)\n"),
    "statement dropped": ("for a in b:\n    continue\n", "for a in b:\n    pass\n"),
    "call dropped": ("f(a)\n", "pass\n"),
    "assignment dropped": ("def f():\n    a.b = c\n", "def f():\n    pass\n"),
    "return dropped": ("def f():\n    return\n", "def f():\n    pass\n"),
    "return of a constant": (
        "def f() -> bool:\n    return a\n",
        "def f() -> bool:\n    return True\n",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_changes_the_source(kind: str) -> None:
    source, becomes = KINDS[kind]
    found = {mutant.new: mutant for mutant in mutants_of("a.py", source)}
    assert found[becomes].what == kind
    assert found[becomes].old == source


def test_a_coroutine_is_changed_as_a_function_is() -> None:
    source = "async def f() -> bool:\n    a.b = c\n    return d\n"
    kinds = [mutant.what for mutant in mutants_of("a.py", source)]
    assert kinds == ["assignment dropped", "return of a constant", "return of a constant"]


def test_the_guard_of_a_case_is_a_condition() -> None:
    (negated,) = mutants_of("a.py", "match a:\n    case b if c:\n        d\n")
    assert negated.new == "match a:\n    case b if not (c):\n        d\n"


def test_a_change_in_a_line_with_non_ascii_characters_keeps_the_rest_of_the_line() -> None:
    source = 'x = ["é", 7,\n     y]\nz = 1\n'
    (up, down, *_) = mutants_of("a.py", source)
    assert (up.new, down.new) == (source.replace("7", "8"), source.replace("7", "6"))
    assert (up.name, diff_of(up)) == ("a.py:1", ['-x = ["é", 7,', '+x = ["é", 8,'])


@pytest.mark.parametrize(
    "source",
    [
        "x: Array[3]\n",
        "@keep(4)\ndef f(a: Array[3]) -> Array[3]:\n    a\n",
        "class A(B, frozen=True):\n    b\n",
        'x = f"{a + 1}"\n',
        'def f():\n    """Text."""\n    return None\n',
        "if TYPE_CHECKING:\n    x = 1\n",
        "if __name__ == '__main__':\n    main(1)\n",
    ],
)
def test_code_that_decides_nothing_has_no_mutants(source: str) -> None:
    assert mutants_of("a.py", source) == []


@pytest.mark.parametrize("core", CORES)
def test_every_mutant_of_a_core_is_valid_python_and_no_two_are_alike(core: str) -> None:
    found = mutants_in(ROOT, core)
    assert all(ast.parse(mutant.new) for mutant in found[:: max(len(found) // 50, 1)])
    assert len({mutant.new for mutant in found}) == len(found)
    assert all((ROOT / test.split("[")[0].split("::")[0]).exists() for test in all_tests(found))


def test_a_core_has_the_name_of_its_folder_in_its_package() -> None:
    assert source_of("log/cleaner") == "server/oncelog_server/log/cleaner"
    assert source_of("protocol") == "protocol/oncelog_protocol"
    assert source_of("client/core/batching.py") == "client/oncelog_client/core/batching.py"


@pytest.mark.parametrize(
    ("file", "core"),
    [
        ("server/oncelog_server/log/cleaner/log.py", "log"),
        ("protocol/oncelog_protocol/records/batch.py", "protocol"),
        ("client/oncelog_client/io/cluster.py", "client/io"),
    ],
)
def test_a_file_is_tried_against_the_tests_of_its_own_core(file: str, core: str) -> None:
    assert core_of(file) is CORES[core]


def test_a_seed_draws_the_same_mutants_again() -> None:
    every = mutants_in(ROOT, "partition")
    assert drawn_from(every, 20, 1) == drawn_from(every, 20, 1) != drawn_from(every, 20, 2)
    assert len(drawn_from(every, 10**6, 1)) == len(every)


def test_every_excused_mutant_exists() -> None:
    all_of = {
        (file, *difference(mutant))
        for file in {excuse.file for excuse in EXCUSED}
        for mutant in mutants_of(file, (ROOT / file).read_text(encoding="utf-8"))
    }
    assert [excuse for excuse in EXCUSED if excuse[:3] not in all_of] == []


def test_a_mutant_that_survives_is_reported_with_its_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tests find one of two mutants. This share is too low, so the run fails."""
    source = "def first():\n    return 1\n\n\ndef second():\n    return 2\n"
    folder = tmp_path / "server/oncelog_server/partition"
    folder.mkdir(parents=True)
    (folder / "numbers.py").write_text(source)
    test = "tests/server/partition/test_numbers.py"
    (tmp_path / test).parent.mkdir(parents=True)
    (tmp_path / test).write_text(
        "import pytest\nimport runpy\n\n\n"
        "@pytest.mark.parametrize('name', ['first'], ids=['by its - name'])\n"
        "def test_first(name):\n"
        "    code = runpy.run_path('server/oncelog_server/partition/numbers.py')\n"
        "    assert code[name]() == 1\n"
    )
    mutants = [
        event
        for event in mutants_of("server/oncelog_server/partition/numbers.py", source, (test,))
        if event.what == "return of a constant"
    ]
    assert run([tmp_path], mutants, wider=()) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{mutants[0].name} return of a constant: {test}::test_first[by its - name]"
    assert lines[1:4] == [
        f"{mutants[1].name} return of a constant: LIVES",
        "-    return 2",
        "+    return None",
    ]
    assert lines[4].startswith("1 of 2 killed, 0 excused, 1 live: 50.0%")
    assert (folder / "numbers.py").read_text() == source

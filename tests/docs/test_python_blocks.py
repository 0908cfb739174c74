"""Every Python program of the getting-started page and of the how-to pages runs and prints what the
page says. The blocks of all pages have tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.testing import Broker
from tests.docs.blocks import DOCS, PAGES, Block, blocks, blocks_of, run_python, run_shell

TESTS = Path(__file__).parents[1]
HERE = "docs/test_python_blocks.py"
JAVA = "docs/test_java_blocks.py"
SECURITY = "docs/test_security_blocks.py"
SHELL = "docs/test_shell_blocks.py"
# The file with the tests of the blocks, by page and language.
TESTED_BY = {
    ("client", "python"): "client/test_client_document.py",
    ("howto/ci", "sh"): SHELL,
    ("howto/ci", "yaml"): SHELL,
    ("howto/compose", "yaml"): SHELL,
    ("howto/connect", "json"): JAVA,
    ("howto/connect", "properties"): JAVA,
    ("howto/connect", "sh"): JAVA,
    ("howto/flink", "java"): JAVA,
    ("howto/flink", "sh"): JAVA,
    ("howto/streams", "java"): JAVA,
    ("howto/streams", "sh"): JAVA,
    ("howto/stuck-readers", "python"): HERE,
    ("howto/stuck-readers", "sh"): SHELL,
    ("pytest", "python"): "testing/test_page.py",
    ("security", "properties"): SECURITY,
    ("security", "python"): SECURITY,
    ("security", "sh"): SECURITY,
    ("spark", "python"): "spark/around/test_spark_document.py",
    ("start", "java"): JAVA,
    ("start", "python"): HERE,
    ("transactions", "python"): HERE,
}
PROGRAMS = [block for page in PAGES for block in blocks(page) if block.language == "python"]


def described(block: Block) -> str:
    return f"{block.page}-{block.heading}"


@pytest.mark.parametrize("program", PROGRAMS, ids=described)
def test_a_program_prints_what_its_page_says(
    program: Block, broker: Broker, tmp_path: Path
) -> None:
    assert run_python(program, broker.bootstrap_servers, tmp_path) == program.printed


def test_the_programs_with_two_phase_commit_and_group_commit_run(tmp_path: Path) -> None:
    programs = blocks_of("transactions", "python")
    assert len(programs) == 2
    with Broker({"transaction.two.phase.commit.enable": True}) as broker:
        servers = broker.bootstrap_servers
        run_shell("oncelog topic create loader-done", servers, tmp_path)
        for program in programs:
            run_python(program, servers, tmp_path)
            run_python(program, servers, tmp_path)
        still_open = run_shell("oncelog txn list --state Ongoing", servers, tmp_path)
    assert "orders" not in still_open


def test_the_blocks_of_every_page_have_a_test() -> None:
    found = {(block.page, block.language) for page in DOCS.rglob("*.md") for block in blocks(page)}
    assert found == TESTED_BY.keys()
    for (page, _), file in TESTED_BY.items():
        source = (TESTS / file).read_text(encoding="utf-8")
        assert f'"{page}' in source, f"{file} does not name {page}"

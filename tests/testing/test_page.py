"""The examples of docs/pytest.md run as they are written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.harness.repository import ROOT
from tests.testing.test_plugin import outcomes, run

PAGE = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    suite = "\n".join(program for program in PROGRAMS if "def test_" in program)
    done = run(tmp_path, suite, "--oncelog-strict")
    assert outcomes(done.stdout) == {"passed": suite.count("def test_")}, done.stdout


def test_the_program_of_the_page_prints_an_address() -> None:
    (program,) = [each for each in PROGRAMS if "def test_" not in each]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", done.stdout)

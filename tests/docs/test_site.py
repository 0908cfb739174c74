"""The documentation site builds without a warning, and has every page, command, error and public
name."""

from __future__ import annotations

import subprocess
import zlib
from pathlib import Path

import pytest

from docs.from_code import sent
from oncelog_client.cli import COMMANDS, KNOWN_EXTENSIONS
from tests.docs.blocks import DOCS
from tests.docs.public_names import VALUES, public_names
from tests.harness.repository import ROOT

PYTHON = ROOT / ".venv-docs" / "bin" / "python"
TIMEOUT_S = 170.0
# Sphinx writes these lines before the compressed names.
INVENTORY_LINES = 4


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, made as `make docs` makes it."""
    if not PYTHON.exists():
        pytest.skip("no .venv-docs: run `make docs`")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [PYTHON, "-m", "sphinx", *options(), str(DOCS), str(folder)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return folder


def options() -> list[str]:
    """Return the options of Sphinx in the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (line,) = [line for line in makefile.splitlines() if "-m sphinx " in line]
    return line.partition("-m sphinx ")[2].split()[:-2]


def test_warnings_are_errors() -> None:
    assert "--fail-on-warning" in options()


def test_the_site_has_every_page(site: Path) -> None:
    pages = [path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")]
    assert len(pages) > 30
    assert not [page for page in pages if not (site / page).is_file()]


def test_the_site_has_every_public_name(site: Path) -> None:
    content = (site / "objects.inv").read_bytes().split(b"\n", INVENTORY_LINES)[INVENTORY_LINES]
    shown = {line.split()[0] for line in zlib.decompress(content).decode().splitlines()}
    missing = {name.full for name in public_names()} - shown
    assert not missing
    assert shown >= VALUES


def test_the_site_has_every_command(site: Path) -> None:
    page = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    assert not [
        name for name in COMMANDS | KNOWN_EXTENSIONS if f"Usage: oncelog {name}" not in page
    ]
    assert "Usage: oncelog txn blocking [OPTIONS]" in page


def test_the_site_has_every_error(site: Path) -> None:
    page = (site / "reference" / "errors.html").read_text(encoding="utf-8")
    anchors = [f'id="{row.code.name.lower().replace("_", "-")}"' for row in sent()]
    assert not [anchor for anchor in anchors if anchor not in page]

"""Linters check the image and the compose file, without a container."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TOOLS = Path(sys.executable).parent


@pytest.mark.parametrize(
    "command",
    [
        ("hadolint", "docker/Dockerfile"),
        ("check-jsonschema", "--builtin-schema", "vendor.compose-spec", "docker/compose.yaml"),
    ],
    ids=["Dockerfile", "compose.yaml"],
)
def test_the_linter_finds_no_problem(command: tuple[str, ...]) -> None:
    tool, *arguments = command
    done = subprocess.run([TOOLS / tool, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_is_pinned_and_unprivileged_and_has_a_health_check() -> None:
    lines = (ROOT / "docker/Dockerfile").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("FROM python:3.11-slim-bookworm") for line in lines) == 2
    installed = [line for line in lines if "--requirement" in line]
    assert installed
    assert all("--require-hashes" in line for line in installed)
    assert "USER 1000:1000" in lines
    assert 'ENTRYPOINT ["oncelog-entrypoint"]' in lines
    assert any(line.startswith("HEALTHCHECK") for line in lines)
    assert any(line.startswith("VOLUME") for line in lines)

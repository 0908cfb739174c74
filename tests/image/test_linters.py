"""Linters check the image and the compose files, without a container."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TOOLS = Path(sys.executable).parent


COMPOSE_FILES = sorted(path.relative_to(ROOT) for path in ROOT.glob("docker/**/*.yaml"))


def check_with(tool: str, *arguments: str) -> None:
    done = subprocess.run([TOOLS / tool, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_linter_finds_no_problem_in_the_dockerfile() -> None:
    check_with("hadolint", "docker/Dockerfile")


def test_the_compose_files_follow_the_compose_specification() -> None:
    assert len(COMPOSE_FILES) == 6
    schema = ("--builtin-schema", "vendor.compose-spec")
    check_with("check-jsonschema", *schema, *map(str, COMPOSE_FILES))


def test_the_build_sees_each_file_that_it_copies() -> None:
    dockerfile = (ROOT / "docker/Dockerfile").read_text(encoding="utf-8")
    copied = set(re.findall(r"^COPY (docker/\S+)", dockerfile, re.MULTILINE))
    seen = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert copied == {line[1:] for line in seen if line.startswith("!docker/")}


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

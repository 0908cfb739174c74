"""The commands and the files for CI and compose on the how-to pages are right."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from oncelog.testing import Broker
from oncelog.testing.broker import BrokerProcess
from tests.docs.blocks import Block, blocks_of, run_python, run_shell
from tests.harness.repository import ROOT

CHECK = Path(sys.executable).with_name("check-jsonschema")
STUCK = "howto/stuck-readers"
SCHEMAS = {
    "A process in the job": "vendor.github-workflows",
    "GitHub Actions": "vendor.github-workflows",
    "GitLab": "vendor.gitlab-ci",
    "One broker": "vendor.compose-spec",
}
FILES = [block for page in ("howto/ci", "howto/compose") for block in blocks_of(page, "yaml")]


def loaded(block: Block) -> Any:
    return yaml.safe_load(block.text)


def shape(text: str) -> list[str]:
    """Return the words of an output. `#` stands for numbers with their units, and for times."""
    return re.sub(r"\d[\d.:]*( (ms|s|B))?\b", "#", text).split()


def test_the_commands_find_and_end_the_transaction_that_holds_readers_back(
    broker: Broker, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    (program,) = blocks_of(STUCK, "python")
    find, end, describe = blocks_of(STUCK, "sh")
    run_python(program, servers, tmp_path)
    assert shape(run_shell(find.text, servers, tmp_path)) == shape(find.printed)
    ended = run_shell(end.text, servers, tmp_path)
    assert ended.split()[-4:] == ["aborted", "behind", "the", "transaction"]
    assert "operator" in run_shell(describe.text, servers, tmp_path)


def test_a_job_starts_a_broker_with_the_commands_of_the_page(port: int, tmp_path: Path) -> None:
    (script,) = blocks_of("howto/ci", "sh")
    text = script.text.replace("9092", str(port))
    stop = "\nkill $!\nwait $!"
    run_shell(text + "oncelog topic describe orders" + stop, f"127.0.0.1:{port}", tmp_path)
    assert "listening" in (tmp_path / "broker.log").read_text(encoding="utf-8")


def test_a_job_ends_if_its_broker_does_not_start(port: int, tmp_path: Path) -> None:
    (script,) = blocks_of("howto/ci", "sh")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        used = taken.getsockname()[1]
        text = script.text.replace("9092", str(used))
        with pytest.raises(AssertionError):
            run_shell(text, f"127.0.0.1:{port}", tmp_path)
    assert "cannot start" in (tmp_path / "broker.log").read_text(encoding="utf-8")


def test_the_steps_of_the_workflow_are_the_commands_of_the_page() -> None:
    (script,) = blocks_of("howto/ci", "sh")
    steps = loaded(blocks_of("howto/ci", "yaml")[0])["jobs"]["tests"]["steps"]
    lines = "\n".join(step.get("run", "") for step in steps).splitlines()
    assert set(script.text.splitlines()) <= set(lines)


@pytest.mark.parametrize("file", FILES, ids=lambda block: block.heading)
def test_a_file_has_the_form_that_its_program_reads(file: Block, tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(file.text, encoding="utf-8")
    done = subprocess.run(
        [CHECK, "--builtin-schema", SCHEMAS[file.heading], path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_broker_of_the_compose_file_is_that_of_the_template() -> None:
    """`make image-test` and tests/image run the templates."""
    (file,) = blocks_of("howto/compose", "yaml")
    template = yaml.safe_load((ROOT / "docker/templates/single.yaml").read_text(encoding="utf-8"))
    assert loaded(file)["services"]["broker"] == template["services"]["broker"]
    assert loaded(file)["volumes"] == template["volumes"]


def test_the_services_of_ci_have_settings_that_a_broker_accepts(port: int, tmp_path: Path) -> None:
    services = [
        loaded(block)["jobs"]["tests"].get("services", {}).get("broker", {}).get("env")
        for block in blocks_of("howto/ci", "yaml")[:2]
    ]
    services += [loaded(blocks_of("howto/ci", "yaml")[2])["tests"]["services"][0]["variables"]]
    tried = [environment for environment in services if environment]
    assert len(tried) == 2
    for number, environment in enumerate(tried):
        here = {
            name: value.replace("broker:", "localhost:").replace("9092", str(port))
            for name, value in environment.items()
        }
        broker = BrokerProcess(tmp_path / str(number), environment=here)
        broker.port = port
        with broker:
            found = run_shell("oncelog topic describe orders", broker.address, tmp_path)
            assert "orders" in found

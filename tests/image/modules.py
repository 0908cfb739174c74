"""The Kafka modules of testcontainers: how each is installed and called.

Each is installed below the cache of the image test, from files of this folder by name and version.
A language without its tools on this computer is unavailable.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.harness.kafka.jars import KafkaUnavailable, jars_of, java
from tests.image.engine import CACHE, Unavailable

FOLDER: Final = Path(__file__).parent / "testcontainers"
WORK: Final = CACHE / "testcontainers"
# The versions of the other modules are in pom.xml, package.json and go.mod.
PYTHON_PACKAGES: Final = ("testcontainers==4.15.0", "packaging==25.0")
ADDRESS: Final = "ADDRESS "


class Module(NamedTuple):
    """A module. `prepare` installs it and returns the beginning of its command, to which the name
    of the image and `arguments` are added. It raises Unavailable. `tag`: the tag of the image."""

    name: str
    prepare: Callable[[], list[str]]
    arguments: tuple[str, ...] = ()
    tag: str = "latest"


def _python() -> list[str]:
    environment = WORK / "python"
    _run([sys.executable, "-m", "venv", str(environment)])
    _run([str(environment / "bin/pip"), "install", "--quiet", *PYTHON_PACKAGES])
    return [str(environment / "bin/python"), str(FOLDER / "python_module.py")]


def _java() -> list[str]:
    try:
        jars = jars_of(FOLDER / "java/pom.xml", WORK / "java")
        program = java()
    except KafkaUnavailable as reason:
        raise Unavailable(str(reason)) from reason
    # Java compiles a single source by itself.
    return [program, "-cp", f"{jars}/*", str(FOLDER / "java/Module.java")]


def _node() -> list[str]:
    npm, node = _program("npm"), _program("node")
    work = shutil.copytree(FOLDER / "node", WORK / "node", dirs_exist_ok=True)
    _run([npm, "install", "--no-audit", "--no-fund", "--loglevel=error", f"--prefix={work}"])
    return [node, str(work / "module.js")]


def _go() -> list[str]:
    go = _program("go")
    program = WORK / "go-module"
    _run([go, "build", "-o", str(program), "."], directory=FOLDER / "go")
    return [str(program)]


MODULES: Final = (
    # These two modules take the tag for a version of Confluent's image.
    Module("Python, KRaft", _python, ("kraft",), tag="8.0.0"),
    Module("Node", _node, tag="8.0.0"),
    Module("Python, ZooKeeper", _python, ("zookeeper",)),
    Module("Java", _java),
    Module("Go", _go),
)


@contextmanager
def started(module: Module, image: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Start a container by the module, and stop it by the module at the end of the block. Return
    the address of the broker. Ends the program if the module fails."""
    WORK.mkdir(parents=True, exist_ok=True)
    command = [*module.prepare(), f"{image}:{module.tag}", *module.arguments]
    with subprocess.Popen(
        command, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = next((line for line in process.stdout if line.startswith(ADDRESS)), None)
        if address is None:
            raise SystemExit(f"image-test: {module.name} ended with {process.wait()}")
        yield address.removeprefix(ADDRESS).strip().replace("localhost", "127.0.0.1")
        process.stdin.close()
    if process.returncode:
        raise SystemExit(f"image-test: {module.name} ended with {process.returncode}")


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"no `{name}` on the PATH")
    return found


def _run(command: list[str], directory: Path | None = None) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"image-test: {' '.join(command)}: {done.stdout}{done.stderr}")

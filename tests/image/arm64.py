"""The image for arm64: the pinned wheels, the build by the same docker/Dockerfile, and a broker.

On a computer with another processor the programs of the build and of the container run under qemu,
about ten times as slowly as on an arm64. So `python -m tests.image.arm64` is a part of
`make nightly`; `make image-test` checks the wheels only.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from oncelog.testing.ports import free_ports
from tests.harness.waiting import wait_until
from tests.image.contents import check_contents, check_size
from tests.image.emulation import aarch64_programs
from tests.image.engine import (
    Engine,
    foreign,
    native_architecture,
    run_steps,
    say,
)
from tests.image.round_trip import compare, read_committed, write_transactions

ROOT: Final = Path(__file__).resolve().parent.parent.parent
IMAGE: Final = foreign("localhost/oncelog:latest", "arm64")
BROKER: Final = "oncelog-arm64-test"
START_S: Final = 180.0
# The files that docker/Dockerfile installs.
REQUIREMENTS: Final = ("image.txt", "build.txt", "demo.txt")
# The names of the platforms that Debian 12 (glibc 2.36) can run.
PLATFORMS: Final = ("manylinux2014_aarch64", "manylinux_2_28_aarch64", "manylinux_2_34_aarch64")


def check_wheels(engine: Engine) -> None:
    """Check that each pinned package has a wheel for arm64 and CPython 3.11 with a pinned hash, so
    that the build compiles nothing. End the program otherwise."""
    platforms = [f"--platform={name}" for name in PLATFORMS]
    with tempfile.TemporaryDirectory() as folder:
        for name in REQUIREMENTS:
            engine.run(
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
                *("--require-hashes", "--only-binary=:all:", "--python-version=3.11", *platforms),
                *(f"--requirement={ROOT / 'requirements' / name}", f"--dest={folder}"),
            )
        wheels = [path.name for path in Path(folder).iterdir()]
    compiled = sum("aarch64" in name for name in wheels)
    say(f"arm64: {len(wheels)} wheels with pinned hashes, {compiled} of them for aarch64")


def check_broker(engine: Engine) -> None:
    """Start the image, write and read transactions, kill the broker, and read them again. End the
    program if a record is lost or duplicated."""
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"

    def is_healthy() -> bool:
        health = ("podman", "exec", BROKER, "oncelog-health")
        return engine.run(*health, check=False).returncode == 0

    try:
        engine.run(
            *("podman", "run", "--detach", f"--name={BROKER}", f"--publish={address}:9092"),
            *(f"--env=KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{address}", IMAGE),
        )
        wait_until(is_healthy, "the health check passes", START_S)
        processor = engine.run("podman", "exec", BROKER, "uname", "--machine").stdout.strip()
        assert processor == "aarch64", processor
        written = write_transactions(address, "arm64")
        compare(written, read_committed(address, "arm64"))
        engine.run("podman", "kill", "--signal", "KILL", BROKER)
        engine.run("podman", "start", BROKER)
        wait_until(is_healthy, "the health check passes again", START_S)
        compare(written, read_committed(address, "arm64"))
    except BaseException:
        done = engine.run("podman", "logs", BROKER, check=False)
        sys.stderr.write((done.stdout + done.stderr)[-4000:])
        raise
    finally:
        engine.run("podman", "rm", "--force", "--time=5", "--ignore", BROKER)


def run_arm64(engine: Engine) -> None:
    """Run the steps. On a computer that is an arm64, the other parts of `make image-test` are such
    a test already. Raises Unavailable if this computer cannot start programs of aarch64."""
    check_wheels(engine)
    if native_architecture() == "arm64":
        return
    with aarch64_programs():
        engine.ensure_base_image("arm64")
        engine.build(ROOT, ROOT / "docker/Dockerfile", IMAGE, architecture="arm64")
        check_size(engine, IMAGE)
        check_contents(engine, IMAGE)
        check_broker(engine)


if __name__ == "__main__":
    sys.exit(run_steps(run_arm64))

"""podman and buildah in place of a Docker engine, separate from other containers of the computer.

Storage, settings and the base image are below ~/.cache/oncelog/containers. The base image is built
from Debian's packages (`tests/image/base_image.py`), so it needs no image registry.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.debian import DebianUnavailable
from tests.image import base_image

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "oncelog" / "containers"
BASE_IMAGE = "localhost/python:3.11-slim-bookworm"

# For each command, the Debian package that has it.
TOOLS = {
    "buildah": "buildah",
    "podman": "podman",
    "runc": "runc",
    "iptables": "iptables",
    "ip": "iproute2",
    "dbus-daemon": "dbus",
    "debootstrap": "debootstrap",
}
NETWORK_TOOLS = {  # not on PATH: podman's own helpers
    "netavark": Path("/usr/lib/podman/netavark"),
    "aardvark-dns": Path("/usr/lib/podman/aardvark-dns"),
}
# The computer's pip settings. The build of an image needs them as well.
PIP_VARIABLES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_DEFAULT_TIMEOUT")


class Unavailable(Exception):
    """A program is missing on this computer. The message has the command that installs it."""


def ensure_tools() -> None:
    """Install missing programs with apt-get, as root. Raises Unavailable for other users, and on a
    system without apt-get."""
    search = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
    missing = [package for tool, package in TOOLS.items() if not shutil.which(tool, path=search)]
    missing += [package for package, path in NETWORK_TOOLS.items() if not path.exists()]
    if not missing:
        return
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *missing]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Unavailable(f"{', '.join(missing)} missing; as root: {' '.join(install)}")
    say(f"installing {' '.join(missing)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "--quiet=2"], env=environment, check=True)
    subprocess.run([*install, "--quiet=2"], env=environment, check=True, stdout=subprocess.DEVNULL)


def say(what: str) -> None:
    sys.stdout.write(f"image-test: {what}\n")
    sys.stdout.flush()


@contextmanager
def exclusive_engine() -> Iterator[Engine]:
    """Yield an engine for one run at a time. Another run waits, because storage, settings and the
    installed programs are shared. The lock ends with the process. Raises Unavailable."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another run to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        engine = Engine()
        engine.remove_leftovers()
        yield engine


def run_steps(steps: Callable[[Engine], None]) -> int:
    """Run the steps of a test with the engine. Return the exit code of the program: 0 if the steps
    pass, or if this computer lacks what they need. With CI=true it is 1 in the latter case."""
    try:
        with exclusive_engine() as engine:
            steps(engine)
    except (Unavailable, DebianUnavailable) as missing:
        say(str(missing))
        return 1 if os.environ.get("CI") == "true" else 0
    say("passed")
    return 0


class Engine:
    """Runs podman, buildah and podman-compose with our own storage."""

    def __init__(self) -> None:
        ensure_tools()
        tools = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join((tools, "/usr/sbin", "/sbin")),
            "CONTAINERS_CONF": str(CACHE / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(CACHE / "storage.conf"),
        }
        self.driver = "overlay"
        self._write_settings()
        if self.run("podman", "info", check=False).returncode != 0:
            self.driver = "vfs"  # slower, but needs no overlays in the file system
            self._write_settings()

    def _write_settings(self) -> None:
        files, processes = (
            f"{min(wanted, soft if soft >= 0 else wanted)}"
            for wanted, soft in (
                (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
                (1024, resource.getrlimit(resource.RLIMIT_NPROC)[0]),
            )
        )
        (CACHE / "containers.conf").write_text(
            f"""[containers]
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
        )
        (CACHE / "storage.conf").write_text(
            f"""[storage]
driver = "{self.driver}"
runroot = "{CACHE}/{self.driver}/run"
graphroot = "{CACHE}/{self.driver}/graph"
"""
        )

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program to its end. If it fails and `check` is True, show its output and end this
        program."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if check and done.returncode != 0:
            sys.stderr.write(done.stdout + done.stderr)
            raise SystemExit(f"image-test: {' '.join(command)} ended with {done.returncode}")
        return done

    def remove_leftovers(self) -> None:
        """Remove the containers, pods, networks and volumes that a killed run left. All of them
        belong to this test, because the storage is its own."""
        self.run("podman", "rm", "--all", "--force", "--time=5", "--volumes")
        self.run("podman", "pod", "rm", "--all", "--force")
        self.run("podman", "network", "prune", "--force")
        self.run("podman", "volume", "prune", "--force")

    @contextmanager
    def service(self) -> Iterator[dict[str, str]]:
        """Serve Docker's API, and return the environment in which a client of Docker uses it."""
        socket = CACHE / "podman.sock"
        command = ["podman", "system", "service", "--time=0", f"unix://{socket}"]
        with (CACHE / "service.log").open("wb") as log:
            service = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        try:
            yield {
                **self.environment,
                "DOCKER_HOST": f"unix://{socket}",
                # testcontainers removes leftover containers by a container of its own (Ryuk), which
                # would need an image from a registry.
                "TESTCONTAINERS_RYUK_DISABLED": "true",
                # Published ports are on this computer, even if this computer is a container.
                "TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1",
                "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
            }
        finally:
            service.terminate()
            service.wait()

    def ensure_base_image(self, architecture: str = "") -> None:
        """Build a replacement for the official base image, unless the storage has it. The default
        architecture, in Debian's names, is that of this computer."""
        architecture, native = architecture or native_architecture(), native_architecture()
        name = BASE_IMAGE if architecture == native else foreign(BASE_IMAGE, architecture)
        recipe = hashlib.sha256(Path(base_image.__file__).read_bytes()).hexdigest()
        form = '{{index .Config.Labels "recipe"}}'
        known = self.run("podman", "image", "inspect", "--format", form, name, check=False)
        if known.stdout.strip() == recipe:
            return
        say(f"making the base image for {architecture} from Debian's packages, once")
        root, archive = CACHE / "rootfs", CACHE / "rootfs.tar"
        shutil.rmtree(root, ignore_errors=True)
        base_image.build_root(root, architecture, self.run)
        self.run("tar", "--directory", str(root), "--create", "--file", str(archive), ".")
        label = f"--change=LABEL recipe={recipe}"
        self.run("podman", "import", f"--arch={architecture}", label, str(archive), name)
        shutil.rmtree(root)
        archive.unlink()

    def build(
        self, context: Path, dockerfile: Path, tag: str, *, target: str = "", architecture: str = ""
    ) -> None:
        """Build an image with the package index and certificates of this computer's pip.
        `architecture`: Debian's name of another architecture than this computer's."""
        extra = [f"--target={target}"] if target else []
        if architecture:
            base = f"container-image://{foreign(BASE_IMAGE, architecture)}"
            extra.append(f"--platform=linux/{architecture}")
            extra.append(f"--build-context={Path(BASE_IMAGE).name}={base}")
        certificate = os.environ.get("PIP_CERT")
        for path in (Path("/etc/pip.conf"), Path(certificate) if certificate else None):
            if path is not None and path.exists():
                extra.append(f"--volume={path}:{path}:ro")
        if certificate:
            extra.append(f"--env=PIP_CERT={certificate}")
        extra += [
            f"--env={name}={os.environ[name]}" for name in PIP_VARIABLES if name in os.environ
        ]
        self.run(
            *("buildah", "bud", "--isolation=chroot", "--pull=never"),
            f"--layers={'true' if self.driver == 'overlay' else 'false'}",
            *("--format=docker", f"--file={dockerfile}", f"--tag={tag}", *extra, str(context)),
        )

    def size_mb(self, image: str) -> float:
        """Return the size of all layers of an image, the base included and uncompressed."""
        size = self.run("podman", "image", "inspect", "--format", "{{.Size}}", image)
        return int(size.stdout) / 1_000_000


def native_architecture() -> str:
    """Return Debian's name of this computer's architecture."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def foreign(image: str, architecture: str) -> str:
    """Return the name of an image for another architecture: localhost/arm64/oncelog."""
    return image.replace("localhost/", f"localhost/{architecture}/")

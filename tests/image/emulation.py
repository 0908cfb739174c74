"""Programs of aarch64 on another processor: the kernel starts them with qemu, as on a computer with
Docker's buildx."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.harness.debian import DebianUnavailable, unpacked
from tests.image.engine import Unavailable

HANDLERS: Final = Path("/proc/sys/fs/binfmt_misc")
NAME: Final = "oncelog-aarch64"
# The beginning of an ELF file for aarch64, and the bits of it that count: Linux,
# Documentation/admin-guide/binfmt-misc.rst, with the values of qemu's scripts/qemu-binfmt-conf.sh.
MAGIC: Final = "7f454c460201010000000000000000000200b700"
MASK: Final = "ffffffffffffff00fffffffffffffffffeffffff"


@contextmanager
def aarch64_programs() -> Iterator[None]:
    """Let the kernel start programs of aarch64, also in containers, until the context ends. Raises
    Unavailable with the reason."""
    if platform.machine() == "aarch64" or _is_handled():
        yield
        return
    try:
        emulator = unpacked("qemu-user-static") / "usr/bin/qemu-aarch64-static"
    except DebianUnavailable as missing:
        raise Unavailable(str(missing)) from missing
    magic, mask = (_escaped(value) for value in (MAGIC, MASK))
    try:
        if not (HANDLERS / "register").exists():
            mount = ["mount", "-t", "binfmt_misc", "binfmt_misc", str(HANDLERS)]
            subprocess.run(mount, check=True, capture_output=True)
        # The flag F opens the emulator now, so that containers need no file of it.
        (HANDLERS / "register").write_text(f":{NAME}:M::{magic}:{mask}:{emulator}:F")
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"the kernel takes no emulator of aarch64: {error}") from error
    try:
        yield
    finally:
        (HANDLERS / NAME).write_text("-1")


def _is_handled() -> bool:
    """Return True if this computer starts such programs already, in containers as well."""
    for handler in HANDLERS.glob("*"):
        if handler.name in ("register", "status"):
            continue
        lines = handler.read_text().splitlines()
        flags = next((line for line in lines if line.startswith("flags:")), "")
        if lines[0] == "enabled" and f"magic {MAGIC}" in lines and "F" in flags:
            return True
    return False


def _escaped(value: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in bytes.fromhex(value))

"""A replacement for the official image python:3.11-slim-bookworm, made from Debian's packages,
because an image registry may be out of reach.

It has what the official image has, at the same places: Debian's minimal system without
documentation, the libraries of Python, and Python in /usr/local, without byte code. The parts that
stay in the image of a broker have the size that they have on the official image, within 5 MB:
Debian's Python 3.11 has the interpreter in the program, not in a library.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

# The packages of the official image besides Debian's minimal system. Debian's Python requires
# libexpat1 as well.
LIBRARIES: Final = (
    *("ca-certificates", "libbz2-1.0", "libdb5.3", "libffi8", "libgdbm6", "liblzma5", "netbase"),
    *("libncursesw6", "libnsl2", "libreadline8", "libsqlite3-0", "libssl3", "libtirpc3", "tzdata"),
    *("libexpat1", "libuuid1", "zlib1g"),
)
PYTHON: Final = (
    *("python3.11", "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib"),
    *("python3.11-venv", "python3-distutils", "python3-lib2to3"),
)
WHEELS: Final = ("python3-pip-whl", "python3-setuptools-whl")
# Debian's slim images leave out these folders, and the files of /usr/share/doc but `copyright`.
DOCUMENTATION: Final = ("groff", "info", "linda", "lintian", "locale", "man")
CACHES: Final = ("cache/apt", "cache/debconf", "cache/ldconfig", "lib/apt/lists", "log")


def build_root(root: Path, architecture: str, run: Callable[..., object]) -> None:
    """Make the file system of the image in the folder `root`. `architecture`: Debian's name, as in
    amd64. `run`: runs a program to its end, and raises if it fails."""
    packages = ",".join((*LIBRARIES, *PYTHON, *WHEELS))
    run(
        *("debootstrap", "--variant=minbase", f"--arch={architecture}", f"--include={packages}"),
        *("bookworm", str(root)),
    )
    _move_python(root)
    unused = (*PYTHON, *WHEELS, "media-types", "python3", "python3-minimal", "libpython3-stdlib")
    _purge(root, unused, run)
    # Debian's module `ensurepip` takes the wheels from here.
    (root / "usr/share/python-wheels").symlink_to("/usr/local/lib/python3.11/ensurepip/_bundled")
    for path in (root / "usr/share/doc").rglob("*"):
        if not path.is_dir() and path.name != "copyright":
            path.unlink()
    for name in DOCUMENTATION:
        _empty(root / "usr/share" / name)
    for name in CACHES:
        _empty(root / "var" / name)


def _move_python(root: Path) -> None:
    """Move Debian's Python to /usr/local, with the wheels of pip that `venv` installs."""
    library = root / "usr/local/lib/python3.11"
    shutil.rmtree(library, ignore_errors=True)
    shutil.move(root / "usr/lib/python3.11", library)
    program = root / "usr/local/bin/python3.11"
    shutil.move(root / "usr/bin/python3.11", program)
    for name in ("python3", "python"):
        program.with_name(name).symlink_to(program.name)
    for cache in sorted(library.rglob("__pycache__")):
        shutil.rmtree(cache)
    # The first is a link to a file in /etc/python3.11. The second keeps pip from installing.
    for name in ("sitecustomize.py", "EXTERNALLY-MANAGED"):
        (library / name).unlink(missing_ok=True)
    shutil.move(root / "usr/share/python-wheels", library / "ensurepip/_bundled")


def _purge(root: Path, packages: Sequence[str], run: Callable[..., object]) -> None:
    """Remove packages from the database. Their scripts would look for the moved files."""
    information = root / "var/lib/dpkg/info"
    known = [name for name in packages if list(information.glob(f"{name}[.:]*"))]
    for name in known:
        for script in (*information.glob(f"{name}.p*"), *information.glob(f"{name}:*.p*")):
            script.unlink()
    run("chroot", str(root), "dpkg", "--purge", "--force-depends", *known)


def _empty(folder: Path) -> None:
    if folder.is_dir():
        shutil.rmtree(folder)
        folder.mkdir()

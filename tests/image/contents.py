"""The size of the image, and the parts of the base that its build must not remove."""

from __future__ import annotations

import textwrap
from typing import Final

from tests.image.engine import Engine, say

# All layers, uncompressed. The base is a replacement for the official one (`base_image.py`), and is
# counted whole.
LIMIT_MB: Final = 150.0

# Runs in the image. Prints a line for each thing that is missing.
CHECK: Final = textwrap.dedent(
    """
    import importlib, os, pathlib, ssl, subprocess, sys, zoneinfo

    # Modules of the broker, and those of Python that need a library.
    import oncelog_server.serve, oncelog_client.kafka_tools.tools, cryptography.x509, joserfc.jwt
    for name, module in sorted(sys.modules.items()):
        cached = getattr(module, "__cached__", None)
        if cached and not os.path.exists(cached):
            print("no byte code:", name)
    for extension in pathlib.Path(os.__file__).with_name("lib-dynload").iterdir():
        importlib.import_module(extension.name.partition(".")[0])
    if len(os.listdir(ssl.get_default_verify_paths().openssl_capath)) < 100:
        print("no certificates")
    zoneinfo.ZoneInfo("Europe/Berlin")

    found = ("find", "/usr/bin", "/usr/local", "/opt", "-type", "f")
    named = ("(", "-perm", "-u+x", "-o", "-name", "*.so*", ")")
    ldd = (*found, *named, "-exec", "ldd", "{}", "+")
    lines = subprocess.run(ldd, capture_output=True, text=True).stdout.splitlines()
    print(*{line.strip() for line in lines if "not found" in line}, sep="\\n")
    """
)


def check_size(engine: Engine, image: str) -> None:
    """Check that the image is below the limit. End the program otherwise."""
    size_mb = engine.size_mb(image)
    say(f"{image}: {size_mb:.1f} MB")
    if size_mb >= LIMIT_MB:
        raise SystemExit(f"image-test: {image} has {size_mb:.1f} MB, {LIMIT_MB:.0f} are allowed")


def check_contents(engine: Engine, image: str) -> None:
    """Check that the image has byte code for all that the broker imports, certificates, time zones,
    and the libraries of all programs. End the program otherwise."""
    run = ("podman", "run", "--rm", "--read-only", "--entrypoint=python3", image)
    missing = engine.run(*run, "-c", CHECK).stdout.strip()
    if missing:
        raise SystemExit(f"image-test: {image}: {missing}")


def check_volume(engine: Engine, image: str) -> None:
    """Check that the data is in a volume at one of the places of Bitnami's image. End the program
    otherwise."""
    for volume, expected in (
        ("/bitnami/kafka", "/bitnami/kafka/data"),
        ("/bitnami", "/bitnami/data"),
        ("/bitnami-of-mine", ""),
    ):
        run = ("podman", "run", "--rm", f"--volume={volume}", image)
        found = engine.run(*run, "sh", "-c", "echo $KAFKA_LOG_DIRS").stdout.strip()
        if found != expected:
            raise SystemExit(f"image-test: volume at {volume}: the data is in {found!r}")

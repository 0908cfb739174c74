"""CRC-32C, which guards record batches and snapshots of producers.

The function comes from the extension module of the package `crc32c`. An import of the package
itself would look up its version and import a command line, which adds 15 ms to every start.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Protocol, cast

from oncelog_protocol.types import Buffer


class Crc32c(Protocol):
    """Return the checksum of the data. `value` is the checksum of the bytes before the data."""

    def __call__(self, data: Buffer, value: int = 0, /) -> int: ...


def _from_extension() -> Crc32c:
    """Return the function of the package's extension module. Raises ImportError if the package has
    another layout."""
    package = find_spec("crc32c")
    folders = None if package is None else package.submodule_search_locations
    spec = PathFinder.find_spec("crc32c._crc32c", folders)
    if spec is None or spec.loader is None:
        raise ImportError("crc32c has no extension module")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast(Crc32c, module.crc32c)


def _from_package() -> Crc32c:
    from crc32c import crc32c

    return cast(Crc32c, crc32c)


try:
    crc32c = _from_extension()
except (ImportError, AttributeError):
    crc32c = _from_package()

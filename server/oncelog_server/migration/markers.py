"""The mark of an import, export or format that has not ended. A broker does not start on a
directory with this mark."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from oncelog_server.salvage.changes import replace_file, sync_directory
from oncelog_server.storage.layout import MIGRATION

# The source of a format, which has none. The sources of imports and exports are absolute paths.
FORMAT: Final = Path("format")


def begin(directory: Path, source: Path) -> None:
    """Write the mark, which names the source. Raises OSError."""
    replace_file(directory / MIGRATION, f"{source}\n".encode())


def end(directory: Path) -> None:
    """Remove the mark. Raises OSError."""
    (directory / MIGRATION).unlink()
    sync_directory(directory)


def source_of(directory: Path) -> Path | None:
    """Return the source that the mark names, None without a mark. Raises OSError."""
    try:
        return Path((directory / MIGRATION).read_text().rstrip("\n"))
    except FileNotFoundError:
        return None

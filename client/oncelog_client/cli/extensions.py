"""Commands that other installed packages add, by the entry point group `oncelog.commands`.

To import `importlib.metadata` and to read the metadata of every package takes 25 ms. Other packages
rarely add a command. A quick look at the `entry_points.txt` files shows whether the import is
needed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable
from typing import Final

GROUP: Final = "oncelog.commands"
# pip and setuptools put entry points into a folder of metadata beside the package.
_METADATA: Final = (".dist-info", ".egg-info")
_FILE: Final = "entry_points.txt"


def extensions(known: Collection[str]) -> dict[str, str]:
    """Return the commands of other packages: name -> `module:attribute`. If all their commands are
    in `known`, return an empty dictionary. Otherwise the result has the known commands too."""
    if all(name in known for name in _names(sys.path)) and not _other_finders():
        return {}
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=GROUP)}


def _other_finders() -> bool:
    """Return True if packages can also be imported from other places than folders in `sys.path`."""
    return any(
        hasattr(finder, "find_distributions") and getattr(finder, "__name__", "") != "PathFinder"
        for finder in sys.meta_path
    ) or any(os.path.isfile(place) for place in sys.path)


def _names(places: Iterable[str]) -> list[str]:
    """Return the names of commands that packages in these folders add to the group."""
    found: list[str] = []
    for place in places:
        try:
            folders = [name for name in os.listdir(place or ".") if name.endswith(_METADATA)]
        except OSError:
            continue  # sys.path may name a missing folder
        for folder in folders:
            try:
                path = os.path.join(place, folder, _FILE)
                with open(path, encoding="utf-8", errors="replace") as file:
                    text = file.read()
            except OSError:
                continue  # most packages have no entry points
            if GROUP in text:
                found += names_in_group(text)
    return found


def names_in_group(text: str) -> list[str]:
    """Return the names of the group in the text of an `entry_points.txt`."""
    names: list[str] = []
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            inside = line[1:].partition("]")[0].strip() == GROUP
        elif inside and line and line[0] not in "#;":
            names.append(line.partition("=")[0].strip())
    return names

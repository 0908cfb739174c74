"""The usage text of a tool, in two columns as joptsimple prints it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Final, Protocol

_LEFT: Final = 40
_RIGHT: Final = 39


class Described(Protocol):
    """An option, as far as the usage text shows it."""

    @property
    def name(self) -> str: ...

    @property
    def argument(self) -> str: ...

    @property
    def help(self) -> str: ...

    @property
    def is_optional(self) -> bool: ...

    @property
    def default(self) -> str | None: ...


def usage(options: Iterable[Described]) -> str:
    """Return the usage text: the options by name, each with its type and description."""
    lines = [_row("Option", "Description"), _row("------", "-----------")]
    for option in sorted(options, key=lambda option: option.name):
        form = f" [{option.argument}]" if option.is_optional else f" <{option.argument}>"
        left = f"--{option.name}" + (form if option.argument else "")
        default = f" (default: {option.default})" if option.default is not None else ""
        lefts = textwrap.wrap(left, _LEFT, subsequent_indent="  ")
        rights = textwrap.wrap(option.help + default, _RIGHT, subsequent_indent="  ") or [""]
        height = max(len(lefts), len(rights))
        lefts += [""] * (height - len(lefts))
        rights += [""] * (height - len(rights))
        lines += map(_row, lefts, rights)
    return "".join(f"{line}\n" for line in lines)


def _row(left: str, right: str) -> str:
    return f"{left:<{_LEFT}} {right:<{_RIGHT}}"

"""Types of arguments with the limits of the protocol: names and numbers that fit their fields."""

from __future__ import annotations

from typing import Any, Final

import click

INT16_MAX: Final = (1 << 15) - 1
INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1
# The protocol has a signed 16-bit number for the length of a string.
LONGEST_BYTES: Final = INT16_MAX

PARTITION: Final = click.IntRange(0, INT32_MAX)
OFFSET: Final = click.IntRange(0, INT64_MAX)
PRODUCER_ID: Final = click.IntRange(0, INT64_MAX)
PRODUCER_EPOCH: Final = click.IntRange(0, INT16_MAX)
COORDINATOR_EPOCH: Final = click.IntRange(-1, INT32_MAX)
MILLISECONDS: Final = click.IntRange(0, INT32_MAX)


class NameType(click.ParamType):  # type: ignore[type-arg]  # click 8.4 made it generic
    """The name of a topic, a group, a transactional id: text that a request can hold."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name. Raises click.BadParameter if the name is empty, not UTF-8, or too
        long."""
        text = str(value)
        if not text:
            self.fail("an empty name", param, ctx)
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            self.fail(f"{text[:40]!r} is not text in UTF-8", param, ctx)
        if size > LONGEST_BYTES:
            self.fail(f"a name of {size} bytes; at most {LONGEST_BYTES} fit a request", param, ctx)
        return text


NAME: Final = NameType()


class FileType(click.Path):
    """An existing file to read, as a Path."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises click.BadParameter if there is no such file."""
        if "\0" in str(value):
            self.fail(f"{str(value)[:40]!r} is not the name of a file", param, ctx)
        from pathlib import Path

        return Path(str(super().convert(value, param, ctx)))


FILE: Final = FileType()


class SecondsType(click.FloatRange):
    """A number of seconds above 0."""

    name = "seconds"

    def __init__(self, most: float) -> None:
        super().__init__(min=0, min_open=True, max=most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the seconds. Raises click.BadParameter if the value is not a number in the
        range."""
        seconds = super().convert(value, param, ctx)
        if seconds != seconds:
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return seconds
